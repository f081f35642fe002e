// Brings waiting requests to cards: the moment a slot is free, the best legal
// batch goes to it. There is no scheduler thread: whoever makes something
// possible (a request that arrives, a card that finishes) starts the batch
// itself, so that an idle card costs one thread hop and no more.
#ifndef BELFRY_SERVER_SCHEDULING_DISPATCHER_H_
#define BELFRY_SERVER_SCHEDULING_DISPATCHER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/cards/card.h"
#include "server/scheduling/job.h"
#include "server/scheduling/model_queue.h"

namespace belfry::scheduling {

// Told about models that misbehave on cards (the lifecycle). Called from cards'
// threads; must not block.
class ModelListener {
 public:
  virtual ~ModelListener() = default;
  // A batch of this model was running when its card was lost, and looks like
  // the cause.
  virtual void OnCardCrashed(const std::shared_ptr<ModelQueue>& queue, const std::string& card,
                             const absl::Status& status) = 0;
  // The card no longer holds the model's executable.
  virtual void OnResidencyLost(cards::ExecutableId executable, const std::string& card,
                               const absl::Status& status) = 0;
};

// Thread-safe. Cards and the model listener must outlive the last batch.
class Dispatcher : public cards::CardListener {
 public:
  explicit Dispatcher(const Clock* clock = &Clock::Real());
  ~Dispatcher() override;

  void SetModelListener(ModelListener* listener);
  // Once, before the first Attach.
  void SetCards(std::vector<cards::Card*> cards);

  // From now on the card may run batches of the queue (its executable is a
  // resident there). Detach returns once no new batch of it can start there;
  // batches in flight go on.
  void Attach(const std::shared_ptr<ModelQueue>& queue, cards::Card* card);
  void Detach(const std::shared_ptr<ModelQueue>& queue, cards::Card* card);
  void DetachAll(const std::shared_ptr<ModelQueue>& queue);

  // Accepts or refuses the job (RESOURCE_EXHAUSTED queue full or tensors that
  // fit no card, UNAVAILABLE no card for it or closed, DEADLINE_EXCEEDED).
  // Accepted: the sink is called exactly once, later or before this returns.
  // Refused: the sink is not called.
  absl::Status Submit(std::shared_ptr<Job> job);
  // The client has gone. Answers CANCELLED if the job is not answered yet.
  void Cancel(const std::shared_ptr<Job>& job);
  // Answers everything that waits in the queue with 'why' (quarantine).
  void FailAll(const std::shared_ptr<ModelQueue>& queue, const absl::Status& why);

  // cards::CardListener
  void OnBatchDone(cards::Card& card, cards::Slot slot, void* tag,
                   cards::BatchResult result) override;
  void OnTurn(cards::Card& card) override;
  void OnCardLost(cards::Card& card) override;
  void OnResidentLost(cards::Card& card, cards::ExecutableId id,
                      const absl::Status& status) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_DISPATCHER_H_
