// The table of belfryd's flags.
#include "server/main/config.h"

namespace belfry {
namespace {

void BindModels(Config* c, FlagSet* flags) {
  const std::string group = "Models";
  flags->Add(group, "data-dir", StringValue(&c->data_dir, "DIR"),
             "Where the server keeps what it makes: the artifact cache and its run files. Created "
             "if it is not there; one server at a time. Required.");
  flags->Add(group, "model-dir", StringValue(&c->model_dir, "DIR"),
             "Serve what lies here as NAME/VERSION/model.pt2, with an optional model.yaml beside "
             "it. Read at the start; 'belfry load NAME' looks again.");
  flags->Add(group, "load-root", ListValue(&c->load_root, "DIR"),
             "'belfry load PATH' takes models from below these folders and from --model-dir, and "
             "from nowhere else.");
  flags->Add(group, "version-policy", ChoiceValue(&c->version_policy, {"latest", "all"}),
             "Which versions of a model in --model-dir are served.");
}

void BindListeners(Config* c, FlagSet* flags) {
  const std::string group = "Listeners (HOST:PORT, [IPV6]:PORT or unix:PATH; port 0: any free one)";
  flags->Add(group, "listen", StringValue(&c->listen, "ADDR"),
             "Inference: Open Inference Protocol over gRPC, health, reflection.");
  flags->Add(group, "metrics-listen", StringValue(&c->metrics_listen, "ADDR"),
             "HTTP for Prometheus: /metrics. TCP only.");
  flags->Add(group, "admin-listen", StringValue(&c->admin_listen, "ADDR"),
             "Load, unload, show, cards, drain. Whoever reaches it may change what is served.");
  flags->Add(group, "rpc-queues", IntValue(&c->rpc_queues, 0, 256),
             "Completion queues of the inference listener, each with a thread; 0: by the number of "
             "cores.");
  flags->Add(group, "max-message-mb", IntValue(&c->max_message_mb, 1, 2047, "MIB"),
             "Largest request and largest answer, MiB. Clients have a limit of their own for what "
             "they receive, often 4 MiB.");
  flags->Add(group, "max-in-flight-mb", IntValue(&c->max_in_flight_mb, 1, 1 << 20, "MIB"),
             "Bytes of requests held at once, MiB; beyond that requests are refused with "
             "RESOURCE_EXHAUSTED.");
}

void BindCards(Config* c, FlagSet* flags) {
  const std::string group = "Cards";
  flags->Add(group, "cards", StringValue(&c->cards, "DRIVER:N[,...]"),
             "Cards to run: a driver and how many, for example cpu:2.");
  flags->Add(group, "cores-per-card", IntValue(&c->cores_per_card, 1, 4096),
             "Host threads that a card may use for one execution.");
  flags->Add(group, "pin", SwitchValue(&c->pin), "Give each card cores of its own.");
  flags->Add(group, "arena-mb", IntValue(&c->arena_mb, 1, 1 << 16, "MIB"),
             "Shared memory for the inputs, and again for the outputs, of one execution, MiB. Each "
             "card has two of each. Taken from the system only as far as it is used.");
  flags->Add(group, "card-memory-mb", IntValue(&c->card_memory_mb, 0, 1 << 26, "MIB"),
             "Memory of one card for models, MiB; 0: what the driver says.");
  flags->Add(group, "card-binary", StringValue(&c->card_binary, "FILE"),
             "The program that runs one card. Default: belfry-card beside belfryd.");
}

void BindArtifacts(Config* c, FlagSet* flags) {
  const std::string group = "Compiling and the artifact cache";
  flags->Add(group, "artifacts-only", SwitchValue(&c->artifacts_only),
             "Never compile: serve only what is in the cache. Needs neither Python nor torch.");
  flags->Add(group, "cache-quota-gb", DoubleValue(&c->cache_quota_gb, 0.001, 1e6, "GIB"),
             "Size of the artifact cache, GiB; the least recently used go first, never one in "
             "use.");
  flags->Add(group, "python", StringValue(&c->python, "FILE"),
             "Python interpreter that has torch.");
  flags->Add(group, "compiler-dir", StringValue(&c->compiler_dir, "DIR"),
             "Folder that holds the package belfry_compiler. Default: found beside the program.");
  flags->Add(group, "compile-timeout", DurationValue(&c->compile_timeout),
             "Longest time of one compile.");
  flags->Add(group, "compile-memory-mb", IntValue(&c->compile_memory_mb, 256, 1 << 26, "MIB"),
             "Most memory of one compile, MiB.");
  flags->Add(group, "parallel-compiles", IntValue(&c->parallel_compiles, 1, 64),
             "Compiles at once.");
}

void BindLife(Config* c, FlagSet* flags) {
  const std::string group = "Shutting down";
  flags->Add(group, "lame-duck", DurationValue(&c->lame_duck),
             "Time between saying 'not ready' and refusing new requests, so that load balancers "
             "can look away first.");
  flags->Add(group, "drain-timeout", DurationValue(&c->drain_timeout),
             "Longest time for finishing accepted requests.");
}

void BindRest(Config* c, FlagSet* flags) {
  flags->Add("Log (on stderr)", "log-format", ChoiceValue(&c->log_format, {"text", "json"}),
             "For people or for machines; one line an event.");
  flags->Add("Log (on stderr)", "log-level",
             ChoiceValue(&c->log_level, {"debug", "info", "warning", "error"}),
             "Least level shown.");
  flags->Add("General", "config", StringValue(&c->config, "FILE"),
             "YAML file with flag names as keys.");
  flags->Add("General", "help", SwitchValue(&c->help), "Show this text.");
  flags->Add("General", "version", SwitchValue(&c->version), "Show the version.");
}

}  // namespace

void BindConfig(Config* config, FlagSet* flags) {
  BindModels(config, flags);
  BindListeners(config, flags);
  BindCards(config, flags);
  BindArtifacts(config, flags);
  BindLife(config, flags);
  BindRest(config, flags);
}

std::string ConfigHelp() {
  Config defaults;
  FlagSet flags;
  BindConfig(&defaults, &flags);
  return "belfryd - inference server for IBM Spyre cards\n"
         "\n"
         "usage: belfryd --data-dir DIR [--model-dir DIR] [--cards cpu:2] [flag ...]\n"
         "\n"
         "Every flag has an environment variable (--data-dir: BELFRY_DATA_DIR; an empty one\n"
         "counts as not set, a list is separated by ':') and a key of the same name in the file\n"
         "of --config (data-dir: /srv/belfry). The command line wins over the environment, the\n"
         "environment over the file. Defaults stand in brackets.\n" +
         flags.Help() +
         "\n"
         "Signals: SIGTERM or SIGINT says 'not ready', waits --lame-duck, refuses new requests,\n"
         "finishes accepted ones and ends. A second one ends at once and kills the cards.\n"
         "Exit codes: 0 ended as asked; 1 could not start, or failed; 2 wrong flags or\n"
         "configuration; 3 ended by a second signal, requests may have been lost.\n"
         "Addresses in use, with the real ports, stand in the log line 'serving' and in\n"
         "DATA-DIR/run/addresses.json.\n";
}

}  // namespace belfry
