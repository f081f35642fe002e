#include "server/serving/yaml_tree.h"

#include <exception>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "device/channel/text.h"
#include "server/telemetry/log.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace belfry::serving {
namespace {

// Ends the parse: the parser has no other way to be stopped. Never leaves
// ParseYaml.
struct Refused : std::exception {
  Refused(int at, std::string why) : line(at), reason(std::move(why)) {}
  int line;
  std::string reason;
};

int Line(const YAML::Mark& mark) { return mark.line + 1; }

// Builds the tree from the parser's events; the library's own tree would resolve
// aliases and forget repeated keys.
class TreeBuilder final : public YAML::EventHandler {
 public:
  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Add(mark, YamlNode::Kind::kNull);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused(Line(mark), "an alias (*name), expected values written out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    const bool null = tag == "?" && (value == "~" || value == "null");
    YamlNode& node = Add(mark, null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar);
    node.quoted = tag == "!";
    node.scalar = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  static void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Refused(Line(mark), "an anchor (&name), expected values written out");
    }
  }
  static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refused(Line(mark), absl::StrCat("the tag '", telemetry::Sanitize(tag, 80),
                                           "', expected a plain value"));
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    if (open_.size() >= kMaxYamlDepth) {
      throw Refused(Line(mark), absl::StrCat("nested deeper than ", kMaxYamlDepth));
    }
    // The address stays good: a parent grows only after its last child closed.
    open_.push_back(&Add(mark, kind));
  }

  YamlNode& Add(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++count_ > kMaxYamlNodes) {
      throw Refused(Line(mark), absl::StrCat("more than ", kMaxYamlNodes, " values"));
    }
    YamlNode* node = &root_;
    if (!open_.empty()) {
      YamlNode& parent = *open_.back();
      const bool is_key = parent.kind == YamlNode::Kind::kMap && parent.items.size() % 2 == 0;
      if (is_key && kind != YamlNode::Kind::kScalar) {
        throw Refused(Line(mark), "a key that is not a text");
      }
      node = &parent.items.emplace_back();
    }
    node->kind = kind;
    node->line = Line(mark);
    return *node;
  }

  YamlNode root_;
  std::vector<YamlNode*> open_;
  size_t count_ = 0;
};

absl::Status Fault(int line, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", reason));
}

}  // namespace

absl::StatusOr<YamlNode> ParseYaml(std::string_view text) {
  if (text.size() > kMaxYamlBytes) {
    return Fault(1, absl::StrCat("the file has ", text.size(), " bytes, expected at most ",
                                 kMaxYamlBytes));
  }
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) return YamlNode{};
    YamlNode root = builder.Take();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      return Fault(second.Take().line, "a second document, expected one");
    }
    return root;
  } catch (const Refused& refused) {
    return Fault(refused.line, refused.reason);
  } catch (const YAML::Exception& e) {
    return Fault(Line(e.mark), absl::StrCat("not YAML: ", telemetry::Sanitize(e.msg, 200)));
  } catch (const std::exception& e) {
    return Fault(1, absl::StrCat("not readable as YAML: ", telemetry::Sanitize(e.what(), 200)));
  }
}

}  // namespace belfry::serving
