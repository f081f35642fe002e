// belfry-card: one process for one card. See README.md beside this file.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "device/card/controller.h"
#include "device/card/driver_library.h"
#include "device/card/executable_table.h"
#include "device/card/executor.h"
#include "device/card/options.h"
#include "device/card/process.h"
#include "device/channel/control.h"
#include "device/channel/mapping.h"

namespace belfry::card {
namespace {

constexpr absl::Duration kSendTimeout = absl::Seconds(30);

int Fail(const absl::Status& status, int code) {
  fprintf(stderr, "belfry-card: %s\n", std::string(status.message()).c_str());
  return code;
}

int Describe(const Options& options) {
  const auto driver = LoadDriver(options.driver, options.driver_dir);
  if (!driver.ok()) return Fail(driver.status(), 1);
  printf("%s\n", (*driver)->describe());
  fflush(stdout);
  return 0;
}

struct Opened {
  const belfry_driver* driver = nullptr;
  std::unique_ptr<OpenCard> card;
  channel::Hello hello;
};

absl::StatusOr<Opened> OpenDriver(const Options& options) {
  Opened opened;
  auto driver = LoadDriver(options.driver, options.driver_dir);
  if (!driver.ok()) return driver.status();
  opened.driver = *driver;
  auto card = OpenCard::Open(opened.driver, options);
  if (!card.ok()) return card.status();
  opened.card = *std::move(card);
  auto describe = channel::ParseDescribe(opened.driver->describe());
  if (!describe.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("describe() of driver '", options.driver, "': ", describe.status().message()));
  }
  opened.hello = {options.driver, static_cast<int>(getpid()), *std::move(describe)};
  return opened;
}

int Serve(const Options& options) {
  SetUpProcess();
  pthread_setname_np(pthread_self(), "card-control");
  // A driver that starts a process does not hand it our descriptors.
  for (const int fd : {options.channel_fd, options.control_fd}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  channel::ControlSocket socket(options.control_fd);
  ExitWhenClosed(options.control_fd);

  auto give_up = [&socket](const absl::Status& status) {
    channel::Reply reply;
    reply.status = status;
    (void)socket.Send(channel::EncodeReply(reply), kSendTimeout);
    ExitNow(Fail(status, 1));
  };
  if (auto s = RunOnCores(options.cores); !s.ok()) give_up(s);
  auto mapping = channel::Mapping::Open(options.channel_fd);
  if (!mapping.ok()) give_up(mapping.status());
  auto opened = OpenDriver(options);
  if (!opened.ok()) give_up(opened.status());

  ExecutableTable table;
  Executor executor(&*mapping, &table, options.spin);
  executor.Start();
  GiveWay();
  if (!socket.Send(channel::EncodeHello(opened->hello), kSendTimeout).ok()) ExitNow(0);
  Controller(&socket, opened->card.get(), &table, &executor).Run();
  executor.Drain();
  table.Clear();
  opened->card.reset();
  ExitNow(0);
}

int Main(const std::vector<std::string>& args) {
  const auto options = ParseOptions(args);
  if (!options.ok()) return Fail(options.status(), 2);
  switch (options->mode) {
    case Options::Mode::kHelp:
      fputs(kHelp, stdout);
      return 0;
    case Options::Mode::kDescribe:
      return Describe(*options);
    case Options::Mode::kServe:
      return Serve(*options);
  }
  return 2;
}

}  // namespace
}  // namespace belfry::card

int main(int argc, char** argv) {
  return belfry::card::Main(std::vector<std::string>(argv + 1, argv + argc));
}
