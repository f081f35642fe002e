// The calls that the command makes. Keeps gRPC's headers out of the verbs.
#ifndef BELFRY_SERVER_CLI_CLIENT_H_
#define BELFRY_SERVER_CLI_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/open_inference.pb.h"
#include "proto/registry.pb.h"

namespace belfry::cli {

// One connection to each listener, made when first used. Every call has the
// deadline 'timeout'. Errors are the server's, in its words, or
// UnreachableError. Thread-safe.
class Client {
 public:
  struct Options {
    std::string server = "127.0.0.1:8001";
    std::string admin = "127.0.0.1:8003";
    absl::Duration timeout = absl::Seconds(30);
  };
  explicit Client(Options options);
  ~Client();

  // Admin listener.
  absl::StatusOr<v1::LoadResponse> Load(const v1::LoadRequest& request);
  absl::StatusOr<v1::UnloadResponse> Unload(const v1::UnloadRequest& request);
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);
  absl::StatusOr<v1::ShowResponse> Show(const v1::ShowRequest& request);
  absl::StatusOr<v1::CardsResponse> Cards();
  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request);

  // Inference listener.
  absl::Status ServerLive();
  absl::StatusOr<bool> ServerReady();
  absl::StatusOr<bool> ModelReady(const std::string& model, const std::string& version);
  absl::StatusOr<inference::ServerMetadataResponse> ServerMetadata();
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(const std::string& model,
                                                                 const std::string& version);
  absl::StatusOr<inference::ModelConfig> ModelConfig(const std::string& model,
                                                     const std::string& version);
  absl::StatusOr<inference::ModelInferResponse> Infer(const inference::ModelInferRequest& request);

  const Options& options() const { return options_; }

 private:
  struct Impl;
  const Options options_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_CLIENT_H_
