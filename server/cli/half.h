// FP16 and BF16 as bit patterns.
#ifndef BELFRY_SERVER_CLI_HALF_H_
#define BELFRY_SERVER_CLI_HALF_H_

#include <cstdint>

namespace belfry::cli {

// Round to nearest, ties to even; too large becomes infinity.
uint16_t ToFp16(float value);
float FromFp16(uint16_t bits);
uint16_t ToBf16(float value);
float FromBf16(uint16_t bits);

}  // namespace belfry::cli

#endif  // BELFRY_SERVER_CLI_HALF_H_
