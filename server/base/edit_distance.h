// How far one word is from another, to name the nearest known one in an error.
#ifndef BELFRY_SERVER_BASE_EDIT_DISTANCE_H_
#define BELFRY_SERVER_BASE_EDIT_DISTANCE_H_

#include <cstddef>
#include <string_view>

namespace belfry {

// Insertions, deletions and replacements of one byte that turn 'a' into 'b'.
// Takes a.size() * b.size() steps: not for long texts.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace belfry

#endif  // BELFRY_SERVER_BASE_EDIT_DISTANCE_H_
