#include "server/telemetry/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/telemetry/exposition_parser.h"

namespace belfry::telemetry {
namespace {

using ::testing::HasSubstr;

ParsedExposition Parse(const std::string& text) {
  auto parsed = ParseExposition(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : ParsedExposition();
}

// Something in every family.
void Fill(Metrics& metrics) {
  auto m = metrics.ForModel("card-fraud", "1");
  m->requests[0].Add(3);
  m->requests[static_cast<int>(absl::StatusCode::kDataLoss)].Add();
  m->rows.Add(7);
  m->queue_seconds.Observe(0.0002);
  m->request_seconds.Observe(0.01);
  m->batch_rows.Observe(7);
  m->executions.Add();
  metrics.ForModel("odd \"name\"\\\n", "2");
  metrics.SetCardSource([] {
    return std::vector<CardSample>{
        {"cpu:0", "cpu", "READY", 1.5, 4, 1, 0, 100, 200},
        {"cpu:1", "cpu", "ON_FIRE", 0, 0, 0, 0, 0, 0},
    };
  });
  metrics.SetVersionSource(
      [] { return std::vector<VersionSample>{{"card-fraud", "1", "READY"}}; });
  metrics.CountRejected(absl::StatusCode::kNotFound);
  metrics.CountRejected(static_cast<absl::StatusCode>(99));
  metrics.CacheHit("cpu");
  metrics.CacheMiss("cpu");
  metrics.CompileDone("cpu", true, 8);
  metrics.CompileDone("cpu", false, 3);
  metrics.CacheEvicted(1000);
  metrics.SetCacheBytes(5000);
}

TEST(MetricsTest, ExpositionHoldsWhatWasRecorded) {
  ManualClock clock;
  Metrics metrics(clock);
  Fill(metrics);
  auto m = metrics.ForModel("card-fraud", "1");
  m->oldest_enqueued_ns = clock.Now();
  clock.Advance(2'000'000'000);
  GaugeToken token(&m->in_flight, 1);
  auto p = Parse(metrics.Render());
  auto& s = p.samples;
  const std::string id = "model=\"card-fraud\",version=\"1\"";
  EXPECT_EQ(s["belfry_requests_total{code=\"OK\"," + id + "}"], 3);
  EXPECT_EQ(s["belfry_requests_total{code=\"DATA_LOSS\"," + id + "}"], 1);
  EXPECT_EQ(s["belfry_rows_total{" + id + "}"], 7);
  EXPECT_EQ(s["belfry_queue_duration_seconds_bucket{le=\"0.00025\"," + id + "}"], 1);
  EXPECT_EQ(s["belfry_request_duration_seconds_count{" + id + "}"], 1);
  EXPECT_EQ(s["belfry_request_duration_seconds_sum{" + id + "}"], 0.01);
  EXPECT_EQ(s["belfry_batch_rows_bucket{le=\"4\"," + id + "}"], 0);
  EXPECT_EQ(s["belfry_batch_rows_bucket{le=\"8\"," + id + "}"], 1);
  EXPECT_EQ(s["belfry_requests_in_flight{" + id + "}"], 1);
  EXPECT_EQ(s["belfry_queue_oldest_age_seconds{" + id + "}"], 2);
  EXPECT_EQ(s["belfry_rejected_requests_total{code=\"NOT_FOUND\"}"], 1);
  EXPECT_EQ(s["belfry_rejected_requests_total{code=\"UNKNOWN\"}"], 1);
  EXPECT_EQ(s["belfry_card_state{card=\"cpu:0\",state=\"READY\"}"], 1);
  EXPECT_EQ(s["belfry_card_state{card=\"cpu:0\",state=\"STOPPED\"}"], 0);
  EXPECT_EQ(s["belfry_card_state{card=\"cpu:1\",state=\"ON_FIRE\"}"], 1);
  EXPECT_EQ(s["belfry_card_memory_bytes{card=\"cpu:0\",kind=\"total\"}"], 200);
  EXPECT_EQ(s["belfry_card_busy_seconds_total{card=\"cpu:0\",driver=\"cpu\"}"], 1.5);
  EXPECT_EQ(s["belfry_model_state{model=\"card-fraud\",state=\"READY\",version=\"1\"}"], 1);
  EXPECT_EQ(s["belfry_model_state{model=\"card-fraud\",state=\"FAILED\",version=\"1\"}"], 0);
  EXPECT_EQ(s["belfry_compiles_total{result=\"failed\",target=\"cpu\"}"], 1);
  EXPECT_EQ(s["belfry_compile_duration_seconds_count{target=\"cpu\"}"], 2);
  EXPECT_EQ(s["belfry_cache_hits_total{target=\"cpu\"}"], 1);
  EXPECT_EQ(s["belfry_cache_misses_total{target=\"cpu\"}"], 1);
  EXPECT_EQ(s["belfry_cache_evictions_total"], 1);
  EXPECT_EQ(s["belfry_cache_evicted_bytes_total"], 1000);
  EXPECT_EQ(s["belfry_cache_bytes"], 5000);
  EXPECT_GT(s["process_cpu_seconds_total"], 0);
  EXPECT_GT(s["process_resident_memory_bytes"], 1 << 20);
  EXPECT_GE(s["process_threads"], 1);
  EXPECT_GT(s["process_open_fds"], 2);
  EXPECT_GT(s["process_max_fds"], s["process_open_fds"]);
  EXPECT_GT(s["process_start_time_seconds"], 1.6e9);
}

TEST(MetricsTest, NamesFollowTheConventions) {
  Metrics metrics;
  Fill(metrics);
  const auto parsed = Parse(metrics.Render());
  for (const auto& [name, type] : parsed.types) {
    EXPECT_TRUE(absl::StartsWith(name, "belfry_") || absl::StartsWith(name, "process_")) << name;
    EXPECT_EQ(absl::EndsWith(name, "_total"), type == "counter") << name;
  }
}

TEST(MetricsTest, EveryFamilyStandsInTheTable) {
  std::ifstream file(BELFRY_TELEMETRY_README);
  const std::string readme((std::istreambuf_iterator<char>(file)), {});
  Metrics metrics;
  Fill(metrics);
  for (const auto& [name, type] : Parse(metrics.Render()).types) {
    EXPECT_THAT(readme, HasSubstr(absl::StrCat("| `", name, "` | ", type, " |")));
  }
}

TEST(MetricsTest, FiguresSurviveAReloadUntilForgotten) {
  Metrics metrics;
  auto first = metrics.ForModel("m", "1");
  first->rows.Add(5);
  EXPECT_EQ(metrics.ForModel("m", "1"), first);
  EXPECT_NE(metrics.ForModel("m", "2"), first);
  metrics.ForgetModel("m", "1");
  EXPECT_THAT(metrics.Render(), ::testing::Not(HasSubstr("version=\"1\"")));
  first->rows.Add(1);  // still valid for whoever holds it
  EXPECT_NE(metrics.ForModel("m", "1"), first);
}

TEST(MetricsTest, EmptyExpositionIsValid) {
  Metrics metrics;
  EXPECT_EQ(Parse(metrics.Render()).types.count("belfry_build_info"), 1u);
}

#ifdef BELFRY_PROMTOOL
TEST(MetricsTest, ReferenceCheckerAccepts) {
  Metrics metrics;
  Fill(metrics);
  FILE* pipe = popen(BELFRY_PROMTOOL " check metrics", "w");
  ASSERT_NE(pipe, nullptr);
  const std::string text = metrics.Render();
  ASSERT_EQ(fwrite(text.data(), 1, text.size(), pipe), text.size());
  EXPECT_EQ(pclose(pipe), 0);
}
#endif

std::string HttpGet(int port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) {
    const std::string ask =
        absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    if (write(fd, ask.data(), ask.size()) == static_cast<ssize_t>(ask.size())) {
      char buffer[4096];
      ssize_t n;
      while ((n = read(fd, buffer, sizeof(buffer))) > 0) answer.append(buffer, n);
    }
  }
  close(fd);
  return answer;
}

TEST(MetricsTest, ServesOverHttpWhileRecording) {
  Metrics metrics;
  ASSERT_TRUE(metrics.Listen("127.0.0.1:0").ok());
  ASSERT_EQ(metrics.ListeningPorts().size(), 1u);
  auto m = metrics.ForModel("m", "1");
  std::atomic<bool> stop{false};
  std::thread recorder([&] {
    while (!stop) {
      m->requests[0].Add();
      m->request_seconds.Observe(0.001);
    }
  });
  for (int i = 0; i < 5; ++i) {
    const std::string answer = HttpGet(metrics.ListeningPorts()[0], "/metrics");
    EXPECT_THAT(answer, HasSubstr("200 OK"));
    EXPECT_THAT(answer, HasSubstr("belfry_requests_total{model=\"m\",version=\"1\",code=\"OK\"}"));
  }
  stop = true;
  recorder.join();
  EXPECT_THAT(HttpGet(metrics.ListeningPorts()[0], "/etc/passwd"), HasSubstr("404"));
}

TEST(MetricsTest, AddressInUseIsAnErrorNotACrash) {
  Metrics first, second;
  ASSERT_TRUE(first.Listen("127.0.0.1:0").ok());
  const std::string taken = absl::StrCat("127.0.0.1:", first.ListeningPorts()[0]);
  const absl::Status status = second.Listen(taken);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(taken));
  EXPECT_FALSE(first.Listen("127.0.0.1:0").ok());
}

TEST(ExpositionParserTest, RefusesWhatPrometheusWouldMisread) {
  EXPECT_FALSE(ParseExposition("a 1\n").ok());
  EXPECT_FALSE(ParseExposition("# HELP a b\n# TYPE a counter\na 1").ok());
  EXPECT_FALSE(ParseExposition("# HELP a b\n# TYPE a counter\na 1\na 1\n").ok());
  EXPECT_FALSE(ParseExposition("# HELP a b\n# TYPE a counter\na{x=\"\n\"} 1\n").ok());
  EXPECT_FALSE(ParseExposition("# HELP a b\n# TYPE a histogram\na_count 1\na_sum 1\n").ok());
  EXPECT_TRUE(ParseExposition("# HELP a b\n# TYPE a counter\na{x=\"y\"} 1\n").ok());
}

}  // namespace
}  // namespace belfry::telemetry
