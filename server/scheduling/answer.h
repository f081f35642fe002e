// The end of a job: exactly one answer, counted once.
#ifndef BELFRY_SERVER_SCHEDULING_ANSWER_H_
#define BELFRY_SERVER_SCHEDULING_ANSWER_H_

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/scheduling/job.h"

namespace belfry::scheduling {

// Answers the job unless it is answered already: with the outputs it asked for,
// in its order, or with an error (then no rows of it wait any more). Counts it
// under its status code. Returns whether this call gave the answer.
bool FinishOk(Job& job, MonoNs now);
bool FinishError(Job& job, const absl::Status& status, MonoNs now);

}  // namespace belfry::scheduling

#endif  // BELFRY_SERVER_SCHEDULING_ANSWER_H_
