// What the parameters of a request, an input and an output mean here. The
// table stands in README.md of this room.
#ifndef BELFRY_SERVER_WIRE_PARAMETERS_H_
#define BELFRY_SERVER_WIRE_PARAMETERS_H_

#include <string_view>

#include "server/wire/envelope.h"
#include "server/wire/faults.h"
#include "server/wire/request.h"

namespace belfry::wire {

// priority and timeout; sequences are refused.
void ApplyRequestParameters(const ParameterList& parameters, Request* request, FaultList* faults);

// Shared memory is refused.
void CheckInputParameters(const ParameterList& parameters, std::string_view input,
                          FaultList* faults);

// classification; shared memory is refused.
void ApplyOutputParameters(const ParameterList& parameters, RequestedOutput* output,
                           FaultList* faults);

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_PARAMETERS_H_
