// The answers of the driver 'fault': a copy of the inputs, or one that lies.
#ifndef BELFRY_DEVICE_DRIVER_FAULT_ANSWERS_H_
#define BELFRY_DEVICE_DRIVER_FAULT_ANSWERS_H_

#include <string_view>

#include "device/driver.h"

namespace belfry::fault {

// Fills the call's outputs as 'fault' asks (empty: an honest copy) and gives
// the outcome to report.
belfry_outcome Answer(belfry_call* call, std::string_view fault);

}  // namespace belfry::fault

#endif  // BELFRY_DEVICE_DRIVER_FAULT_ANSWERS_H_
