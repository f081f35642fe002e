// Helpers of this room's tests.
#ifndef BELFRY_SERVER_ARTIFACTS_TESTING_H_
#define BELFRY_SERVER_ARTIFACTS_TESTING_H_

#include <string>
#include <string_view>

#include "device/channel/text.h"
#include "server/artifacts/key.h"
#include "server/base/files.h"

namespace belfry::artifacts {

// A folder that goes with the object.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

// Writes a whole artifact of one file into the folder 'dir' (made if need be),
// as the compiler would, and returns its key. 'model' makes keys differ.
ArtifactKey WriteArtifact(const std::string& dir, std::string_view model,
                          std::string_view payload = "payload",
                          std::string_view compiler = "test/1");

void WriteText(const std::string& path, std::string_view text);
std::string ReadText(const std::string& path);  // "" when not there
bool Exists(const std::string& path);

template <typename StatusLike>
std::string Message(const StatusLike& status) {
  return std::string(StdView(status.message()));
}

}  // namespace belfry::artifacts

#endif  // BELFRY_SERVER_ARTIFACTS_TESTING_H_
