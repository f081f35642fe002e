// What a compiled artifact says of itself: manifest.json, read by belfryd and
// by belfry-card. The format is specified in README.md beside this file.
#ifndef BELFRY_DEVICE_MANIFEST_MANIFEST_H_
#define BELFRY_DEVICE_MANIFEST_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/channel/dtype.h"

namespace belfry {

// One dimension of a tensor: a fixed size, a symbol ("batch"), or an
// expression in symbols that only the compiled code evaluates ("2*seq").
struct Dim {
  enum class Kind { kFixed, kSymbol, kExpression };
  Kind kind = Kind::kFixed;
  int64_t size = 0;      // kFixed
  std::string text;      // kSymbol: its name; kExpression: for people
};

struct TensorSpec {
  std::string name;
  DataType dtype = DataType::kInvalid;
  std::vector<Dim> dims;
  // The axis along which requests are joined; -1: the tensor has none.
  int batch_axis = -1;
  // Value written into padded elements (inputs only).
  double pad_value = 0;
};

// Inclusive range of a symbol, as the exported program declares it.
struct SymbolRange {
  int64_t min = 1;
  int64_t max = INT64_MAX;
};

// Everything that validation, scheduling and metadata need of a model.
struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::map<std::string, SymbolRange> symbols;

  // Whether rows of several requests may be joined into one execution, and if
  // not, why (shown to people).
  bool batchable = false;
  std::string unbatched_reason;
  // The symbol of the batch axis; empty when the axis has a fixed size.
  std::string batch_symbol;
  // For a batch axis of fixed size: every execution has exactly this many
  // rows, requests are padded up to it. 0 otherwise.
  int64_t fixed_batch = 0;

  // The built-in echo: any dtype, any shape, one input, same output. Requests
  // are joined along axis 0 where the other dimensions are equal.
  bool any_tensor = false;
};

struct ManifestFile {
  std::string path;  // relative, no "..", '/' separated
  std::string sha256;  // lower-case hex
  uint64_t bytes = 0;
};

struct Manifest {
  int format = 0;
  std::string key;
  // What the key was made of, flattened: "torch" -> "2.13.0+cpu",
  // "options.precision" -> "float32". For --explain-cache-miss.
  std::map<std::string, std::string> key_fields;
  std::string target;
  Signature signature;
  std::vector<ManifestFile> files;
  std::string entry_kind;  // "aoti", "spyre-plan", …: the driver checks it
  std::string entry_path;  // one of 'files', or a folder of them
  // The compile report as it stands in the file (JSON text), for people.
  std::string report_json;
  double compile_seconds = 0;
  double max_abs_error = 0;  // against eager, worst output
};

// Parses and checks a manifest. Any input gives a Manifest or
// INVALID_ARGUMENT that names the field, what came and what was expected.
absl::StatusOr<Manifest> ParseManifest(std::string_view json);

// Reads DIR/manifest.json (at most 16 MiB). Does not verify the files' sums.
absl::StatusOr<Manifest> ReadManifest(const std::string& dir);

// The signature of the built-in model 'echo'.
Signature EchoSignature();

}  // namespace belfry

#endif  // BELFRY_DEVICE_MANIFEST_MANIFEST_H_
