// From the JSON of manifest.json to a Manifest. Internal to this room.
#ifndef BELFRY_DEVICE_MANIFEST_READER_H_
#define BELFRY_DEVICE_MANIFEST_READER_H_

#include "absl/status/status.h"
#include "device/channel/json.h"
#include "device/manifest/manifest.h"

namespace belfry {

// INVALID_ARGUMENT that names the first field that is wrong.
absl::Status ReadManifestJson(const JsonView& root, Manifest* manifest);

// Parts of it.
absl::Status ReadSignature(const JsonView& root, Signature* signature);

}  // namespace belfry

#endif  // BELFRY_DEVICE_MANIFEST_READER_H_
