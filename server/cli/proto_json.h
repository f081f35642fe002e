// Messages as JSON for --json.
#ifndef BELFRY_SERVER_CLI_PROTO_JSON_H_
#define BELFRY_SERVER_CLI_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

namespace belfry::cli {

// Keys are the field names of the .proto file and every field is there, so that
// scripts need not test for it. Numbers are numbers (protobuf's own JSON writes
// 64-bit ones as strings), an enum value is its name without the type's prefix
// ("READY"), a field NAME_json is parsed and stands as NAME. An absent message
// is null.
nlohmann::ordered_json ProtoToJson(const google::protobuf::Message& message);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_PROTO_JSON_H_
