// Random ModelInferRequests as bytes: valid ones, mutated ones, and fields that
// only look like one. Seeded by the caller, so that a failure can be repeated.
#ifndef BELFRY_SERVER_WIRE_RANDOM_MESSAGES_H_
#define BELFRY_SERVER_WIRE_RANDOM_MESSAGES_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "proto/open_inference.pb.h"

namespace belfry::wire {

using Random = std::mt19937_64;
using ParameterMap = google::protobuf::Map<std::string, inference::InferParameter>;

inline int Below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<uint64_t>(n));
}

inline std::string RandomText(Random& random) {
  static const char* const kTexts[] = {"", "x", "input_ids", "FP32", "INT64", "BYTES", "é", "日本",
                                       "a rather long name that fits no small string"};
  return kTexts[Below(random, std::size(kTexts))];
}

inline uint64_t RandomNumber(Random& random) { return random() >> Below(random, 64); }

inline void FillParameters(Random& random, ParameterMap* map) {
  for (int n = Below(random, 3); n > 0; --n) {
    inference::InferParameter& p = (*map)[RandomText(random)];
    switch (Below(random, 6)) {
      case 0:
        p.set_bool_param(Below(random, 2) == 1);
        break;
      case 1:
        p.set_int64_param(static_cast<int64_t>(RandomNumber(random)));
        break;
      case 2:
        p.set_string_param(RandomText(random));
        break;
      case 3:
        p.set_double_param(std::bit_cast<double>(random()));
        break;
      case 4:
        p.set_uint64_param(RandomNumber(random));
        break;
      default:
        break;
    }
  }
}

inline void FillContents(Random& random, inference::InferTensorContents* c) {
  for (int n = Below(random, 6); n > 0; --n) {
    switch (Below(random, 8)) {
      case 0:
        c->add_bool_contents(Below(random, 2) == 1);
        break;
      case 1:
        c->add_int_contents(static_cast<int32_t>(RandomNumber(random)));
        break;
      case 2:
        c->add_int64_contents(static_cast<int64_t>(RandomNumber(random)));
        break;
      case 3:
        c->add_uint_contents(static_cast<uint32_t>(RandomNumber(random)));
        break;
      case 4:
        c->add_uint64_contents(RandomNumber(random));
        break;
      case 5:
        c->add_fp32_contents(std::bit_cast<float>(static_cast<uint32_t>(random())));
        break;
      case 6:
        c->add_fp64_contents(std::bit_cast<double>(random()));
        break;
      default:
        c->add_bytes_contents(RandomText(random));
    }
  }
}

inline std::string RandomMessage(Random& random) {
  inference::ModelInferRequest r;
  r.set_model_name(RandomText(random));
  if (Below(random, 2)) r.set_model_version(RandomText(random));
  if (Below(random, 2)) r.set_id(RandomText(random));
  FillParameters(random, r.mutable_parameters());
  for (int n = Below(random, 3); n > 0; --n) {
    auto* input = r.add_inputs();
    input->set_name(RandomText(random));
    input->set_datatype(RandomText(random));
    for (int d = Below(random, 4); d > 0; --d) {
      input->add_shape(static_cast<int64_t>(RandomNumber(random)));
    }
    FillParameters(random, input->mutable_parameters());
    if (Below(random, 2)) FillContents(random, input->mutable_contents());
  }
  for (int n = Below(random, 3); n > 0; --n) {
    auto* output = r.add_outputs();
    output->set_name(RandomText(random));
    FillParameters(random, output->mutable_parameters());
  }
  for (int n = Below(random, 3); n > 0; --n) {
    r.add_raw_input_contents(std::string(Below(random, 40), static_cast<char>(random())));
  }
  return r.SerializeAsString();
}

inline std::string Varint(uint64_t value, int pad = 0) {
  std::string out;
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
  for (; pad > 0; --pad) {  // the same number, written longer than need be
    out.back() = static_cast<char>(out.back() | 0x80);
    out.push_back('\0');
  }
  return out;
}

// Fields with any number and type, nested messages that mostly add up.
inline std::string RandomFields(Random& random, int depth) {
  std::string out;
  for (int n = Below(random, 5); n > 0; --n) {
    const uint64_t number = Below(random, 8) == 0 ? RandomNumber(random) : 1 + Below(random, 9);
    static constexpr int kTypes[] = {0, 1, 2, 2, 2, 3, 5};
    const int type = Below(random, 20) == 0 ? Below(random, 8) : kTypes[Below(random, 7)];
    const int pad = Below(random, 12) == 0 ? Below(random, 10) : 0;
    out += Varint(number << 3 | static_cast<uint64_t>(type), pad);
    switch (type) {
      case 0:
        out += Varint(RandomNumber(random), Below(random, 12) == 0 ? Below(random, 10) : 0);
        break;
      case 1:
        out.append(8, static_cast<char>(random()));
        break;
      case 2: {
        std::string inner = depth > 0 && Below(random, 3) > 0 ? RandomFields(random, depth - 1)
                                                              : RandomText(random);
        if (Below(random, 4) == 0) inner.assign(Below(random, 6) * 4, static_cast<char>(random()));
        out += Varint(inner.size(), Below(random, 12) == 0 ? Below(random, 7) : 0) + inner;
        break;
      }
      case 3:
        if (depth > 0) out += RandomFields(random, depth - 1);
        out += Varint(number << 3 | 4);
        break;
      case 5:
        out.append(4, static_cast<char>(random()));
        break;
      default:
        break;
    }
  }
  return out;
}

inline std::string Mutate(Random& random, std::string bytes) {
  for (int n = 1 + Below(random, 3); n > 0 && !bytes.empty(); --n) {
    const size_t at = random() % bytes.size();
    switch (Below(random, 7)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << Below(random, 8)));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.erase(at, 1 + random() % 4);
        break;
      case 4:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      case 5:
        bytes.insert(at, RandomFields(random, 1));
        break;
      default:
        bytes += RandomMessage(random);  // protobuf merges messages put together
    }
  }
  return bytes;
}

inline std::vector<size_t> RandomCuts(Random& random, size_t size) {
  std::vector<size_t> cuts;
  for (int n = Below(random, 6); n > 0; --n) cuts.push_back(random() % (size + 1));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace belfry::wire

#endif  // BELFRY_SERVER_WIRE_RANDOM_MESSAGES_H_
