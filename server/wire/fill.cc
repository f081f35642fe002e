#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "server/wire/copy.h"
#include "server/wire/element.h"

namespace belfry::wire {

namespace {

// One element's bytes, written over and over.
class Filler {
 public:
  Filler(double value, DataType dtype) : width_(StoreElement(value, dtype, pattern_)) {
    uniform_ = std::all_of(pattern_, pattern_ + width_,
                           [this](uint8_t b) { return b == pattern_[0]; });
  }

  size_t width() const { return width_; }

  void Fill(uint8_t* tensor, int64_t first, int64_t count) const {
    uint8_t* const out = tensor + static_cast<size_t>(first) * width_;
    const size_t bytes = static_cast<size_t>(count) * width_;
    if (bytes == 0) return;
    if (uniform_) {
      std::memset(out, pattern_[0], bytes);
      return;
    }
    // Doubles what is there already: long runs are few large copies.
    std::memcpy(out, pattern_, width_);
    for (size_t done = width_; done < bytes;) {
      const size_t n = std::min(done, bytes - done);
      std::memcpy(out + done, out, n);
      done += n;
    }
  }

 private:
  uint8_t pattern_[8] = {};
  size_t width_;
  bool uniform_ = false;
};

// Fills around the box, dimension by dimension: what lies before and behind it
// is contiguous; what lies beside it is looked at one level further in.
class OutsideFiller {
 public:
  OutsideFiller(uint8_t* tensor, const Box& box, const Filler& filler)
      : tensor_(tensor), box_(box), filler_(filler) {
    const int rank = static_cast<int>(box.shape.size());
    full_ = rank;
    stride_.resize(rank);
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      stride_[d] = step;
      step *= box.shape[d];
      // Dimensions from 'full_' on are covered by the box: nothing to do there.
      if (full_ == d + 1 && box.extent[d] == box.shape[d]) full_ = d;
    }
  }

  void Run() {
    if (full_ > 0) Visit(0, 0);
  }

 private:
  void Visit(int d, int64_t base) {
    const int64_t begin = box_.origin[d];
    const int64_t end = begin + box_.extent[d];
    filler_.Fill(tensor_, base, begin * stride_[d]);
    filler_.Fill(tensor_, base + end * stride_[d], (box_.shape[d] - end) * stride_[d]);
    if (d + 1 >= full_) return;
    for (int64_t i = begin; i < end; ++i) Visit(d + 1, base + i * stride_[d]);
  }

  uint8_t* const tensor_;
  const Box& box_;
  const Filler& filler_;
  absl::InlinedVector<int64_t, 12> stride_;
  int full_ = 0;
};

}  // namespace

void FillOutside(uint8_t* tensor, DataType dtype, const Box& box, double value) {
  const Filler filler(value, dtype);
  if (filler.width() == 0) return;
  OutsideFiller(tensor, box, filler).Run();
}

}  // namespace belfry::wire
