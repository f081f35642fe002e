#include "server/cli/model_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "server/cli/exit_code.h"
#include "server/cli/tensor_json.h"

namespace belfry::cli {
namespace {

using ::testing::HasSubstr;

inference::ModelConfig TwoInputs() {
  inference::ModelConfig config;
  config.add_input()->set_name("x");
  config.add_input()->set_name("ids");
  auto& parameters = *config.mutable_parameters();
  parameters["belfry.shape.x"].set_string_value("FP32 [7,batch,2]");
  parameters["belfry.shape.ids"].set_string_value("INT64 [batch,seq]");
  parameters["belfry.symbol.batch"].set_string_value("1..1024");
  parameters["belfry.symbol.seq"].set_string_value("1..4");
  parameters["belfry.batch_symbol"].set_string_value("batch");
  return config;
}

inference::ModelConfig Echo() {
  inference::ModelConfig config;
  config.add_input()->set_name("input");
  (*config.mutable_parameters())["belfry.shape.input"].set_string_value("any dtype, any shape");
  return config;
}

std::string Fault(const std::string& text, const ModelInputs& model) {
  const auto input = ReadInput(text, model);
  EXPECT_EQ(ExitCodeOf(input.status()), kUsage) << text;
  return std::string(input.status().message());
}

TEST(ModelInputsTest, MakesInputsThatFit) {
  const auto model = InputsOf(TwoInputs());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto inputs = MakeInputs(*model, 3, {});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(Describe((*inputs)[0].second), "FP32 [7,3,2]");
  EXPECT_EQ(Describe((*inputs)[1].second), "INT64 [3,4]") << "16 is beyond the symbol's range";
  EXPECT_EQ(Describe((*MakeInputs(*model, 1, {{"seq", 2}}))[1].second), "INT64 [1,2]");
  EXPECT_EQ((*MakeInputs(*model, 3, {}))[0].second.data, (*inputs)[0].second.data);
  const auto request = MakeRequest("m", "2", *inputs);
  EXPECT_EQ(request.raw_input_contents(0).size(), 7u * 3 * 2 * 4);
  EXPECT_EQ(request.inputs(1).shape(1), 4);
  EXPECT_EQ(request.model_version(), "2");
}

TEST(ModelInputsTest, ReadsJsonAsTheModelsDatatype) {
  const auto model = *InputsOf(TwoInputs());
  const auto input = ReadInput("x=[1,2]", model);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_EQ(input->first, "x");
  EXPECT_EQ(Describe(input->second), "FP32 [2]");
  EXPECT_EQ(Describe(ReadInput("x:FP64=[1]", model)->second), "FP64 [1]")
      << "what the user says is sent, right or wrong";
}

TEST(ModelInputsTest, TheNameMayBeLeftOutOfOne) {
  const auto echo = *InputsOf(Echo());
  EXPECT_EQ(Describe(ReadInput("[[1.5]]", echo)->second), "FP32 [1,1]");
  EXPECT_EQ(Describe(ReadInput("input:INT8=[1]", echo)->second), "INT8 [1]");
  EXPECT_EQ(Describe(ReadInput("[\"a=b\"]", echo)->second), "BYTES [1]");
  EXPECT_THAT(Fault("[1]", *InputsOf(TwoInputs())),
              HasSubstr("x FP32 [7,batch,2], ids INT64 [batch,seq]"));
}

TEST(ModelInputsTest, ReadsFiles) {
  const std::string path = ::testing::TempDir() + "model_inputs_test.json";
  std::ofstream(path) << "[[1, 2]]";
  EXPECT_EQ(Describe(ReadInput("ids=@" + path, *InputsOf(TwoInputs()))->second), "INT64 [1,2]");
  std::remove(path.c_str());
  EXPECT_EQ(ExitCodeOf(ReadInput("ids=@" + path, *InputsOf(TwoInputs())).status()), kLocal);
}

TEST(ModelInputsTest, TellsWhatIsWrong) {
  const auto model = *InputsOf(TwoInputs());
  EXPECT_THAT(Fault("y=[1]", model), HasSubstr("there is no 'y'"));
  EXPECT_THAT(Fault("x:FLOAT=[1]", model), HasSubstr("'FLOAT' is no datatype"));
  EXPECT_THAT(Fault("ids=[1.5]", model), HasSubstr("1.5 is no INT64"));
  EXPECT_THAT(Fault("ids=[1", model), HasSubstr("not JSON"));
}

TEST(ModelInputsTest, AnotherServersConfigIsNotGuessedAt) {
  inference::ModelConfig config;
  config.add_input()->set_name("x");
  EXPECT_EQ(InputsOf(config).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace belfry::cli
