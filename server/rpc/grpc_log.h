// What gRPC itself has to say goes into the structured log.
#ifndef BELFRY_SERVER_RPC_GRPC_LOG_H_
#define BELFRY_SERVER_RPC_GRPC_LOG_H_

namespace belfry::rpc {

// For the whole process; call it before the first use of gRPC.
void SendGrpcLogToOurs();

// While one of these lives gRPC is heard at level debug only: for steps whose
// failure we tell ourselves, in one line. For the whole process, not nested.
class QuietGrpcLog {
 public:
  QuietGrpcLog();
  ~QuietGrpcLog();
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_GRPC_LOG_H_
