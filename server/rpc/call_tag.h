// What travels through a completion queue: an object and the step to take.
#ifndef BELFRY_SERVER_RPC_CALL_TAG_H_
#define BELFRY_SERVER_RPC_CALL_TAG_H_

namespace belfry::rpc {

// A tag's Step runs on the thread of its completion queue, never two of one
// queue at a time. 'ok' is gRPC's: whether the operation succeeded.
class CallTag {
 public:
  virtual ~CallTag() = default;
  virtual void Step(bool ok) = 0;
};

// A tag that calls a method of its owner.
template <typename Owner>
class MethodTag final : public CallTag {
 public:
  using Method = void (Owner::*)(bool ok);
  MethodTag(Owner* owner, Method method) : owner_(owner), method_(method) {}
  void Step(bool ok) override { (owner_->*method_)(ok); }

 private:
  Owner* const owner_;
  const Method method_;
};

}  // namespace belfry::rpc

#endif  // BELFRY_SERVER_RPC_CALL_TAG_H_
