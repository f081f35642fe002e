#include "server/cli/command.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/cli/exit_code.h"
#include "server/cli/verbs.h"

namespace belfry::cli {
namespace {

constexpr char kExitCodes[] =
    "Exit codes: 0 done; 1 the server (or the compiler) said no; 2 wrong usage; 3 no server\n"
    "answers; 4 no answer in time; 5 a file of this host cannot be read or written. Errors go to\n"
    "stderr, answers to stdout.\n";

std::string GeneralHelp() {
  std::string text =
      "belfry - speaks to belfryd, the inference server\n"
      "\n"
      "usage: belfry [--server ADDR] [--admin ADDR] VERB [operands] [flags]\n"
      "\n"
      "verbs:\n";
  for (const auto& verb : AllVerbs()) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", verb->name(), verb->summary());
  }
  absl::StrAppend(&text,
                  "\n'belfry VERB --help' tells more. The addresses also come from\n"
                  "BELFRY_SERVER and BELFRY_ADMIN.\n\n",
                  kExitCodes);
  return text;
}

std::string VerbHelp(const Verb& verb, const FlagSet& flags) {
  return absl::StrCat("belfry ", verb.name(), " - ", verb.summary(), "\n\nusage: belfry ",
                      verb.name(), verb.operands().empty() ? "" : " ", verb.operands(),
                      " [flags]\n", verb.details().empty() ? "" : "\n", verb.details(),
                      flags.Help(), "\n", kExitCodes);
}

int Complain(const absl::Status& status) {
  std::string text = absl::StrCat("belfry: ", status.message());
  // What kind of no it was, where the message alone does not tell.
  if (ExitCodeOf(status) == kRefused) {
    absl::StrAppend(&text, " (", absl::StatusCodeToString(status.code()), ")");
  }
  Progress(text);
  return ExitCodeOf(status);
}

std::string FromEnvironment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::string(value);
}

void BindCommon(Verb* verb, bool* help, FlagSet* flags) {
  verb->connection.server = FromEnvironment("BELFRY_SERVER", verb->connection.server);
  verb->connection.admin = FromEnvironment("BELFRY_ADMIN", verb->connection.admin);
  verb->connection.timeout = verb->default_timeout();
  const std::string group = "Common flags";
  if (verb->talks_to_server()) {
    flags->Add(group, "server", StringValue(&verb->connection.server, "ADDR"),
               "Inference listener: HOST:PORT or unix:PATH. Environment: BELFRY_SERVER.");
    flags->Add(group, "admin", StringValue(&verb->connection.admin, "ADDR"),
               "Admin listener. Environment: BELFRY_ADMIN.");
    flags->Add(group, "timeout", DurationValue(&verb->connection.timeout),
               "Longest time for the answer.");
  }
  if (verb->has_json()) flags->Add(group, "json", SwitchValue(&verb->json), "Answer as JSON.");
  flags->Add(group, "help", SwitchValue(help), "Show this text.");
}

// Takes the verb out of the arguments: the first that is neither a flag nor the
// value of --server or --admin, which may stand before it.
std::string TakeVerb(std::vector<std::string>* args) {
  for (size_t i = 0; i < args->size(); ++i) {
    const std::string& arg = (*args)[i];
    if (arg == "--server" || arg == "--admin" || arg == "--timeout") {
      ++i;
    } else if (!arg.starts_with("-")) {
      std::string verb = arg;
      args->erase(args->begin() + static_cast<std::ptrdiff_t>(i));
      return verb;
    }
  }
  return "";
}

std::unique_ptr<Verb> FindVerb(const std::string& name) {
  for (auto& verb : AllVerbs()) {
    if (verb->name() == name) return std::move(verb);
  }
  return nullptr;
}

absl::Status UnknownVerb(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& verb : AllVerbs()) names.push_back(verb->name());
  const std::string nearest = NearestName(name, names);
  return UsageError(absl::StrCat("there is no verb '", name, "'",
                                 nearest.empty() ? "" : "; did you mean ", nearest,
                                 " (belfry --help shows all)"));
}

absl::Status CheckOperands(const Verb& verb, size_t count) {
  if (count >= verb.min_operands() && count <= verb.max_operands()) return absl::OkStatus();
  return UsageError(absl::StrCat("usage: belfry ", verb.name(), " ", verb.operands(),
                                 "; got ", count, count == 1 ? " operand" : " operands",
                                 " ('belfry ", verb.name(), " --help' tells more)"));
}

}  // namespace

int RunCommand(const std::vector<std::string>& args) {
  std::vector<std::string> rest = args;
  const std::string name = TakeVerb(&rest);
  if (name.empty() || name == "help") {
    const bool flag = !rest.empty() && (rest[0] == "--help" || rest[0] == "-h");
    const bool asked = name == "help" || flag;
    if (!rest.empty() && rest[0] == "--version") {
      Print("belfry " BELFRY_VERSION "\n");
      return kOk;
    }
    if (asked) {
      Print(GeneralHelp());
      return kOk;
    }
    return Complain(UsageError("a verb is needed (belfry --help shows all)"));
  }
  const auto verb = FindVerb(name);
  if (verb == nullptr) return Complain(UnknownVerb(name));

  bool help = false;
  FlagSet flags;
  verb->Bind(&flags);
  BindCommon(verb.get(), &help, &flags);
  std::vector<std::string> operands;
  const auto layer = flags.ReadArgs(rest, &operands);
  if (!layer.ok()) return Complain(UsageError(std::string(layer.status().message())));
  const auto applied = flags.Apply(*layer, [](const std::string& flag) { return "--" + flag; });
  if (!applied.ok()) return Complain(UsageError(std::string(applied.message())));
  if (help) {
    Print(VerbHelp(*verb, flags));
    return kOk;
  }
  if (auto status = CheckOperands(*verb, operands.size()); !status.ok()) return Complain(status);
  const auto status = verb->Run(operands);
  return status.ok() ? static_cast<int>(kOk) : Complain(status);
}

}  // namespace belfry::cli
