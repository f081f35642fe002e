#include "server/scheduling/batch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "server/scheduling/answer.h"
#include "server/scheduling/test_support.h"

namespace belfry::scheduling {
namespace {

using channel::TensorDesc;
using testing::CollectingSink;
using testing::Fixed;
using testing::MakeJob;
using testing::RowOptions;
using testing::Symbol;

class BatchTest : public ::testing::Test {
 protected:
  // Two arenas; the "card" answers each element times ten.
  std::vector<uint8_t> in_ = std::vector<uint8_t>(1 << 16);
  std::vector<uint8_t> out_ = std::vector<uint8_t>(1 << 16);
  CollectingSink sink_a_, sink_b_;

  std::unique_ptr<Batch> Form(const std::shared_ptr<ModelQueue>& queue,
                              std::vector<std::shared_ptr<Job>> jobs) {
    for (const auto& job : jobs) {
      PlanPadding(job.get());
      const absl::Status s = queue->Push(job, 0);
      EXPECT_TRUE(s.ok()) << s;
    }
    return Next(queue);
  }
  std::unique_ptr<Batch> Next(const std::shared_ptr<ModelQueue>& queue) {
    Taken taken = queue->Take(0, false, 0, [](const Job& job) { return RoomFor(job, 1 << 16, 1 << 16); });
    return taken.parts.empty() ? nullptr : std::make_unique<Batch>(queue, std::move(taken), 0);
  }
  std::vector<TensorDesc> Run(const Batch& batch) {
    std::vector<TensorDesc> outputs = batch.inputs();
    for (const TensorDesc& t : outputs) {
      for (size_t i = 0; i < t.bytes / sizeof(float); ++i) {
        float v;
        std::memcpy(&v, in_.data() + t.offset + i * sizeof v, sizeof v);
        v *= 10;
        std::memcpy(out_.data() + t.offset + i * sizeof v, &v, sizeof v);
      }
    }
    return outputs;
  }
  std::vector<float> Input(const Batch& batch, size_t tensor) {
    const TensorDesc& t = batch.inputs()[tensor];
    std::vector<float> values(t.bytes / sizeof(float));
    std::memcpy(values.data(), in_.data() + t.offset, t.bytes);
    return values;
  }
  void Finish(Batch& batch) {
    const std::vector<TensorDesc> outputs = Run(batch);
    ASSERT_TRUE(batch.CheckOutputs(outputs).ok()) << batch.CheckOutputs(outputs);
    int64_t row = 0;
    for (const Part& part : batch.parts()) {
      const absl::Status copied = batch.CopyOut(part, row, outputs, out_);
      ASSERT_TRUE(copied.ok()) << copied;
      row += part.rows;
      Job& job = *part.job;
      if ((job.rows_done += part.rows) == job.binding.rows) FinishOk(job, 1);
    }
  }
};

TEST_F(BatchTest, JoinsRowsAndGivesEachItsOwn) {
  auto queue = std::make_shared<ModelQueue>(RowOptions(2, 8));
  auto batch = Form(queue, {MakeJob(queue, {2, 2}, 1, &sink_a_), MakeJob(queue, {1, 2}, 100, &sink_b_)});
  EXPECT_TRUE(batch->CopyIn(in_).empty());
  EXPECT_EQ(batch->executed_rows(), 3);
  EXPECT_EQ(Input(*batch, 0), (std::vector<float>{1, 2, 3, 4, 100, 101}));
  Finish(*batch);
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30, 40}));
  EXPECT_EQ(sink_a_.shape(0), (wire::Shape{2, 2}));
  EXPECT_EQ(sink_b_.floats(0), (std::vector<float>{1000, 1010}));
}

TEST_F(BatchTest, JoinsAlongAnInnerAxis) {
  QueueOptions options = RowOptions(2, 8);  // [time, batch, feature]
  for (auto* tensors : {&options.signature.inputs, &options.signature.outputs}) {
    (*tensors)[0].dims = {Fixed(2), Symbol("batch"), Fixed(1)};
    (*tensors)[0].batch_axis = 1;
  }
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  auto batch = Form(queue, {MakeJob(queue, {2, 2, 1}, 1, &sink_a_, 1),
                            MakeJob(queue, {2, 1, 1}, 100, &sink_b_, 1)});
  batch->CopyIn(in_);
  EXPECT_EQ(Input(*batch, 0), (std::vector<float>{1, 2, 100, 3, 4, 101}));
  Finish(*batch);
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30, 40}));
  EXPECT_EQ(sink_b_.floats(0), (std::vector<float>{1000, 1010}));
}

TEST_F(BatchTest, PadsRowsWithTheDeclaredValueEachTimeAnew) {
  QueueOptions options = RowOptions(2, 4);
  options.limits.buckets = {4};
  options.signature.inputs[0].pad_value = -1;
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  std::memset(in_.data(), 0xff, in_.size());
  auto batch = Form(queue, {MakeJob(queue, {3, 2}, 1, &sink_a_)});
  batch->CopyIn(in_);
  EXPECT_EQ(batch->executed_rows(), 4);
  EXPECT_EQ(Input(*batch, 0), (std::vector<float>{1, 2, 3, 4, 5, 6, -1, -1}));
  Finish(*batch);
  EXPECT_EQ(sink_a_.shape(0), (wire::Shape{3, 2}));
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30, 40, 50, 60}));
}

TEST_F(BatchTest, PadsASequenceToItsBucketAndTrimsTheAnswer) {
  QueueOptions options = RowOptions(2, 4);
  for (auto* tensors : {&options.signature.inputs, &options.signature.outputs}) {
    (*tensors)[0].dims = {Symbol("batch"), Symbol("seq")};
  }
  options.signature.symbols["seq"] = {.min = 1, .max = 64};
  options.signature.inputs[0].pad_value = 7;
  options.buckets["seq"] = {4, 8};
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  auto a = MakeJob(queue, {1, 3}, 1, &sink_a_);
  auto b = MakeJob(queue, {1, 2}, 100, &sink_b_);
  a->binding.symbols = {3};
  b->binding.symbols = {2};
  b->binding.shape_key = "another";  // as validation gives it; padding joins them
  auto batch = Form(queue, {a, b});
  ASSERT_EQ(batch->parts().size(), 2u);
  batch->CopyIn(in_);
  EXPECT_EQ(Input(*batch, 0), (std::vector<float>{1, 2, 3, 7, 100, 101, 7, 7}));
  Finish(*batch);
  EXPECT_EQ(sink_a_.shape(0), (wire::Shape{1, 3}));
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30}));
  EXPECT_EQ(sink_b_.floats(0), (std::vector<float>{1000, 1010}));
}

TEST_F(BatchTest, ASequenceAboveTheLargestBucketRunsAsItIs) {
  QueueOptions options = RowOptions(2, 4);
  options.signature.inputs[0].dims = {Symbol("batch"), Symbol("seq")};
  options.signature.outputs[0].dims = {Symbol("batch"), Symbol("seq")};
  options.signature.symbols["seq"] = {.min = 1, .max = 64};
  options.buckets["seq"] = {4};
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  auto a = MakeJob(queue, {1, 5}, 1, &sink_a_);
  a->binding.symbols = {5};
  auto batch = Form(queue, {a});
  batch->CopyIn(in_);
  EXPECT_EQ(Input(*batch, 0).size(), 5u);
}

TEST_F(BatchTest, RejoinsARequestThatWasSplit) {
  auto queue = std::make_shared<ModelQueue>(RowOptions(2, 2));
  auto batch = Form(queue, {MakeJob(queue, {5, 2}, 1, &sink_a_)});
  int batches = 0;
  for (; batch != nullptr; batch = Next(queue), ++batches) {
    EXPECT_EQ(sink_a_.count(), 0u);
    batch->CopyIn(in_);
    Finish(*batch);
  }
  EXPECT_EQ(batches, 3);
  EXPECT_EQ(sink_a_.shape(0), (wire::Shape{5, 2}));
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
}

TEST_F(BatchTest, RefusesAnswersThatDoNotFitTheSignature) {
  auto queue = std::make_shared<ModelQueue>(RowOptions(2, 8));
  auto batch = Form(queue, {MakeJob(queue, {2, 2}, 1, &sink_a_)});
  batch->CopyIn(in_);
  const std::vector<TensorDesc> good = Run(*batch);
  const auto refused = [&](auto change) {
    std::vector<TensorDesc> bad = good;
    change(bad);
    const absl::Status s = batch->CheckOutputs(bad);
    EXPECT_EQ(s.code(), absl::StatusCode::kInternal);
    return std::string(s.message());
  };
  EXPECT_NE(refused([](auto& o) { o[0].dims[0] = 1; }).find("expected 2 in dimension 0"),
            std::string::npos);
  EXPECT_NE(refused([](auto& o) { o[0].dims[1] = 3; }).find("output 'y'"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o[0].rank = 1; }).find("2 dimensions"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o[0].dtype = 13; }).find("FP64"), std::string::npos);
  EXPECT_NE(refused([](auto& o) { o.clear(); }).find("0 outputs"), std::string::npos);
  EXPECT_EQ(sink_a_.count(), 0u);
}

TEST_F(BatchTest, AnOutputThatShrinksBetweenPartsIsRefused) {
  QueueOptions options = RowOptions(2, 2);
  options.signature.outputs[0].dims[1] = {.kind = Dim::Kind::kExpression, .size = 0, .text = "?"};
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  auto batch = Form(queue, {MakeJob(queue, {4, 2}, 1, &sink_a_)});
  batch->CopyIn(in_);
  Finish(*batch);
  batch = Next(queue);
  batch->CopyIn(in_);
  std::vector<TensorDesc> outputs = Run(*batch);
  outputs[0].dims[1] = 1;
  outputs[0].bytes /= 2;
  ASSERT_TRUE(batch->CheckOutputs(outputs).ok());
  EXPECT_EQ(batch->CopyOut(batch->parts()[0], 0, outputs, out_).code(),
            absl::StatusCode::kInternal);
}

TEST_F(BatchTest, AnAnswerThatNoMessageHoldsIsRefusedBeforeItRuns) {
  QueueOptions options = RowOptions(2, 8);
  options.max_answer_bytes = 64;
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  EXPECT_TRUE(CheckFits(*MakeJob(queue, {8, 2}, 0, &sink_a_), 1 << 16, 1 << 16).ok());
  const absl::Status s = CheckFits(*MakeJob(queue, {9, 2}, 0, &sink_a_), 1 << 16, 1 << 16);
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BatchTest, TellsWhatDoesNotFitASlot) {
  auto queue = std::make_shared<ModelQueue>(RowOptions(1024, 8));
  auto job = MakeJob(queue, {1, 1024}, 0, &sink_a_);
  EXPECT_TRUE(CheckFits(*job, 4096, 4096).ok());
  const absl::Status s = CheckFits(*job, 4095, 4096);
  EXPECT_EQ(s.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(s.message().find("4096 bytes of inputs"), absl::string_view::npos) << s;
  EXPECT_EQ(RoomFor(*job, 4096 * 3, 1 << 20), 3);
}

// As validation gives it: one "row", which is the whole request.
TEST_F(BatchTest, ARequestWhoseRowsDependIsRunWhole) {
  QueueOptions options = RowOptions(2, 4);
  options.signature.batchable = false;
  options.join = false;
  auto queue = std::make_shared<ModelQueue>(std::move(options));
  auto job = MakeJob(queue, {3, 2}, 1, &sink_a_);
  job->binding.rows = 1;
  job->binding.joinable = false;
  EXPECT_TRUE(CheckFits(*job, 64, 64).ok());
  auto batch = Form(queue, {job, MakeJob(queue, {1, 2}, 100, &sink_b_)});
  ASSERT_EQ(batch->parts().size(), 1u);
  batch->CopyIn(in_);
  EXPECT_EQ(Input(*batch, 0), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(batch->inputs()[0].dims[0], 3);
  Finish(*batch);
  EXPECT_EQ(sink_a_.shape(0), (wire::Shape{3, 2}));
  EXPECT_EQ(sink_a_.floats(0), (std::vector<float>{10, 20, 30, 40, 50, 60}));
}

}  // namespace
}  // namespace belfry::scheduling
