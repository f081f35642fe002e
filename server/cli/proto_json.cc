#include "server/cli/proto_json.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace belfry::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// VERSION_STATE_READY of enum VersionState -> READY.
std::string EnumName(const google::protobuf::EnumValueDescriptor* value) {
  const std::string& zero = value->type()->value(0)->name();
  const std::string suffix = "UNSPECIFIED";
  const std::string& name = value->name();
  if (!zero.ends_with(suffix)) return name;
  const std::string prefix = zero.substr(0, zero.size() - suffix.size());
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// index -1: the field is not repeated.
Json Value(const Message& message, const FieldDescriptor* field, int index) {
  const auto* reflection = message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return repeated ? reflection->GetRepeatedInt32(message, field, index)
                      : reflection->GetInt32(message, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return repeated ? reflection->GetRepeatedInt64(message, field, index)
                      : reflection->GetInt64(message, field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return repeated ? reflection->GetRepeatedUInt32(message, field, index)
                      : reflection->GetUInt32(message, field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return repeated ? reflection->GetRepeatedUInt64(message, field, index)
                      : reflection->GetUInt64(message, field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return repeated ? reflection->GetRepeatedDouble(message, field, index)
                      : reflection->GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return repeated ? reflection->GetRepeatedFloat(message, field, index)
                      : reflection->GetFloat(message, field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return repeated ? reflection->GetRepeatedBool(message, field, index)
                      : reflection->GetBool(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(repeated ? reflection->GetRepeatedEnum(message, field, index)
                               : reflection->GetEnum(message, field));
    case FieldDescriptor::CPPTYPE_STRING:
      return repeated ? reflection->GetRepeatedString(message, field, index)
                      : reflection->GetString(message, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ProtoToJson(repeated ? reflection->GetRepeatedMessage(message, field, index)
                                  : reflection->GetMessage(message, field));
  }
  return nullptr;
}

Json MapField(const Message& message, const FieldDescriptor* field) {
  Json out = Json::object();
  const auto* reflection = message.GetReflection();
  const auto* key = field->message_type()->map_key();
  const auto* value = field->message_type()->map_value();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    const Json name = Value(entry, key, -1);
    out[name.is_string() ? name.get<std::string>() : name.dump()] = Value(entry, value, -1);
  }
  return out;
}

Json FieldValue(const Message& message, const FieldDescriptor* field) {
  if (field->is_map()) return MapField(message, field);
  if (field->is_repeated()) {
    Json list = Json::array();
    const int size = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < size; ++i) list.push_back(Value(message, field, i));
    return list;
  }
  if (field->has_presence() && !message.GetReflection()->HasField(message, field)) return nullptr;
  return Value(message, field, -1);
}

}  // namespace

Json ProtoToJson(const Message& message) {
  Json out = Json::object();
  const auto* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    std::string name = field->name();
    Json value = FieldValue(message, field);
    if (value.is_string() && name.ends_with("_json")) {
      name.resize(name.size() - 5);
      value = Json::parse(value.get<std::string>(), nullptr, false);
      if (value.is_discarded()) value = nullptr;
    }
    out[name] = std::move(value);
  }
  return out;
}

}  // namespace belfry::cli
