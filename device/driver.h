/* The C interface between belfry-card and a card driver (a shared library,
 * libbelfry_driver_NAME.so, loaded with dlopen).
 *
 * One process owns one card and opens one driver once. The interface speaks of
 * executables (an artifact may hold several), of calls whose completion is
 * signalled and not awaited, and of buffers that the card process owns and a
 * call may read or mutate. It does not assume that the card is a library of
 * ours: a driver may just as well talk to another runtime.
 *
 * Errors: a function that returns int returns 0 on success; otherwise it has
 * written a text for people to *error. No function throws.
 * Threads: 'load', 'warm' and 'unload' are called from one control thread,
 * 'submit' from one execution thread, at the same time; 'unload' of an executable
 * never overlaps with a call of it. 'done' may be called from any thread, also
 * from inside 'submit'.
 */
#ifndef BELFRY_DEVICE_DRIVER_H_
#define BELFRY_DEVICE_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BELFRY_DRIVER_ABI 1u
#define BELFRY_DRIVER_MAX_RANK 12
#define BELFRY_DRIVER_ERROR_BYTES 4096

typedef struct belfry_error {
  char text[BELFRY_DRIVER_ERROR_BYTES]; /* NUL terminated */
} belfry_error;

/* A tensor in host memory, row-major and dense. dtype: belfry::DataType. */
typedef struct belfry_tensor {
  uint8_t dtype;
  uint8_t rank;
  uint8_t reserved[6];
  int64_t dims[BELFRY_DRIVER_MAX_RANK];
  void* data;
  uint64_t bytes;
} belfry_tensor;

/* A buffer that lives on the card between calls (weights, a KV cache). */
typedef struct belfry_buffer belfry_buffer;

typedef struct belfry_card_options {
  int32_t index;          /* of the card among those of its driver */
  int32_t threads;        /* host threads the driver may use for one call */
  uint64_t memory_bytes;  /* budget; 0: the driver's own default */
  const char* json;       /* driver options as a JSON object, never NULL */
} belfry_card_options;

typedef struct belfry_executable_info {
  uint64_t resident_bytes; /* card memory that the executable holds */
} belfry_executable_info;

typedef enum belfry_outcome {
  BELFRY_OK = 0,
  BELFRY_MODEL_ERROR = 1,      /* this call failed, the executable is fine */
  BELFRY_CARD_ERROR = 2,       /* the process must be restarted */
  BELFRY_OUTPUT_TOO_LARGE = 3, /* outputs do not fit the output memory */
} belfry_outcome;

/* One execution. The caller keeps everything valid until 'done' has been
 * called with last != 0. */
typedef struct belfry_call {
  const belfry_tensor* inputs;
  uint32_t input_count;
  /* Buffers of the card that the call reads and may mutate, in the order that
   * the executable declares them. */
  belfry_buffer* const* buffers;
  uint32_t buffer_count;
  /* The driver writes each output densely into output_memory, at multiples of
   * 64 bytes, and describes it in outputs[0 .. output_count). */
  void* output_memory;
  uint64_t output_memory_bytes;
  belfry_tensor* outputs;
  uint32_t output_capacity;
  uint32_t output_count;
  uint64_t cycles; /* modelled cycles; 0 where there is no model */
  belfry_error error;
  /* Called once per answer; 'last' is 0 on all but the final one. */
  void (*done)(struct belfry_call* call, belfry_outcome outcome, int last);
  void* user; /* the caller's */
} belfry_call;

typedef struct belfry_card belfry_card;             /* the driver's */
typedef struct belfry_executable belfry_executable; /* the driver's */

typedef struct belfry_driver {
  uint32_t abi; /* BELFRY_DRIVER_ABI */
  const char* name;
  /* JSON object: {"driver": "cpu/1", "arch": …, "isa": …, "torch": …}: what
   * an artifact must have been compiled for. Static storage. */
  const char* (*describe)(void);
  int (*open)(const belfry_card_options* options, belfry_card** card, belfry_error* error);
  void (*close)(belfry_card* card);
  /* dir: the artifact's folder, manifest.json in it. */
  int (*load)(belfry_card* card, const char* dir, belfry_executable** executable,
              belfry_executable_info* info, belfry_error* error);
  void (*unload)(belfry_card* card, belfry_executable* executable);
  /* Runs once on the given inputs and throws the answer away, so that the
   * first real call pays for nothing. May run beside 'submit'. */
  int (*warm)(belfry_card* card, belfry_executable* executable, const belfry_tensor* inputs,
              uint32_t input_count, belfry_error* error);
  void (*submit)(belfry_card* card, belfry_executable* executable, belfry_call* call);
  /* Buffers: allocated zeroed; NULL when memory is short. */
  belfry_buffer* (*allocate)(belfry_card* card, uint64_t bytes);
  void (*free_buffer)(belfry_card* card, belfry_buffer* buffer);
  /* Memory now in use and the budget, in bytes. */
  void (*memory)(belfry_card* card, uint64_t* used, uint64_t* total);
} belfry_driver;

/* The one symbol a driver exports. */
const belfry_driver* belfry_driver_get(void);

#ifdef __cplusplus
}
#endif

#endif /* BELFRY_DEVICE_DRIVER_H_ */
