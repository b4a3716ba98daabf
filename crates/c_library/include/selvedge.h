/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libselvedge: use of namespaces of NVMe/TCP targets from userspace, without root and without a kernel driver.
 *
 * Errors    Functions that return int return 0 (or a number of completions), or a negative errno. selvedge_last_error()
 *           has the text of the last failure on this thread. NVMe statuses have the errno of the Linux block layer.
 * Units     Offsets and lengths are bytes, in whole logical blocks of the namespace. Timeouts name their unit.
 * Threads   A volume may be used by any threads at a time. A queue is used by the thread that opened it only; calls of
 *           another return -EPERM. Options are used by one thread at a time. No handle survives fork(): open it after.
 * Paths     With several addresses, a command whose path is lost is sent on another as soon as this can do no harm, and
 *           lost paths are reconnected. A queue does so while its thread polls it.
 */
#ifndef SELVEDGE_H
#define SELVEDGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. It grows with every addition; the number in the library's file name (libselvedge.so.0)
 * grows with every incompatible change. */
#define SELVEDGE_API_VERSION 1

typedef struct selvedge_options selvedge_options;
typedef struct selvedge_volume selvedge_volume;
typedef struct selvedge_queue selvedge_queue;

/* Flag of writes: durable at completion (force unit access). Other writes are durable after a flush. */
#define SELVEDGE_FUA 1u
/* Flag of write_zeroes: the target may deallocate the blocks. */
#define SELVEDGE_DEALLOCATE 2u

/* Version of the library, such as "0.2.0". */
const char *selvedge_version(void);

/* Text of the last failure on this thread, valid until the next failure; "" before the first. Never NULL. */
const char *selvedge_last_error(void);

/* ------------------------------------------------------------ options */

/*
 * Options are texts, named as nvme-cli names them ('-' is accepted for '_'):
 *
 *   traddr                   address or name of the target, with :PORT if not trsvcid; several, separated by commas, are
 *                            paths to one namespace (required)
 *   trsvcid                  port [4420]
 *   subnqn                   NQN of the subsystem (required)
 *   nsid                     number of the namespace [1]
 *   hostnqn, hostid          identity of this host [/etc/nvme/hostnqn and hostid, or derived from the machine]
 *   host_iface               local network interface
 *   dhchap_secret_file       file with this host's secret, DHHC-1:...
 *   dhchap_ctrl_secret_file  file with the subsystem's secret, by which the target must authenticate, too
 *   tls_key_file             file with TLS keys, NVMeTLSkey-1:...; connections are TLS then
 *   concat                   1 to derive the TLS key from the authentication [0]
 *   io_queues                threads of a volume, or connections of a queue on each path [1]
 *   queue_size               entries of each NVMe I/O queue [128, or what a queue's depth needs]
 *   keep_alive_tmo           keep alive time-out in seconds, 0 for none [5]
 *   ctrl_loss_tmo            seconds after which a lost path is given up, -1 for never [600]
 *   hdr_digest, data_digest  1 to enable digests [0]
 *
 * Files are read when a volume or queue is opened, and must not be readable by others. Reading a secret or a key sets the
 * limit of core dumps of the process (RLIMIT_CORE) to 0.
 */
selvedge_options *selvedge_options_new(void);

/* Sets an option. -ENOENT: no such option; -EINVAL: not a value of it. */
int selvedge_options_set(selvedge_options *options, const char *name, const char *value);

/* Frees options, which may be NULL. Volumes and queues do not need them once they are open. */
void selvedge_options_free(selvedge_options *options);

/* ------------------------------------------------------------ volumes: calls that wait */

/* Opens a namespace; *volume is NULL after a failure. It waits until a path is connected. */
int selvedge_open(const selvedge_options *options, selvedge_volume **volume);

/* Closes a volume, which may be NULL, and its connections. No call may be using it. */
void selvedge_close(selvedge_volume *volume);

/* Size in bytes, which follows the namespace's; bytes of a logical block. */
uint64_t selvedge_size(const selvedge_volume *volume);
uint32_t selvedge_block_size(const selvedge_volume *volume);

/* Transfers exactly `length` bytes, of any number of blocks. After a failure, the content of buffer or blocks is unknown. */
int selvedge_pread(const selvedge_volume *volume, void *buffer, size_t length, uint64_t offset);
int selvedge_pwrite(const selvedge_volume *volume, const void *buffer, size_t length, uint64_t offset, uint32_t flags);

/* Makes all completed writes durable. */
int selvedge_flush(const selvedge_volume *volume);

/* Deallocates blocks (Dataset Management): a hint, which may do nothing. */
int selvedge_discard(const selvedge_volume *volume, uint64_t offset, uint64_t length);

/* Writes zeroes, without sending them. Flags: SELVEDGE_DEALLOCATE. */
int selvedge_write_zeroes(const selvedge_volume *volume, uint64_t offset, uint64_t length, uint32_t flags);

/* ------------------------------------------------------------ queues: many requests of one thread */

/* A completed request. */
struct selvedge_completion {
	uint64_t user;     /* the value that was given with the request */
	int32_t result;    /* 0, or a negative errno */
	uint16_t status;   /* NVMe status of the failed command (type << 8 | code); 0 if there is none */
	uint16_t reserved; /* 0 */
};

/*
 * Opens a queue with connections of its own, for up to `depth` requests at a time (8192 at most). It waits until they are
 * live. Nothing happens on a queue outside its calls: poll while requests are outstanding, or they time out.
 */
int selvedge_queue_open(const selvedge_options *options, uint32_t depth, selvedge_queue **queue);

/* Closes a queue, which may be NULL. Outstanding requests have no completion; their memory is free afterwards. */
int selvedge_queue_close(selvedge_queue *queue);

uint64_t selvedge_queue_size(const selvedge_queue *queue);
uint32_t selvedge_queue_block_size(const selvedge_queue *queue);

/*
 * Add a request; `user` returns with its completion. They never wait. -EAGAIN: `depth` requests are outstanding, so poll
 * first; -EINVAL: not whole blocks of the namespace. After another failure there is no completion either.
 * The buffer belongs to the request until its completion is taken. Requests complete in any order; a flush covers the
 * writes that had completed when it was added.
 */
int selvedge_queue_read(selvedge_queue *queue, void *buffer, size_t length, uint64_t offset, uint64_t user);
int selvedge_queue_write(selvedge_queue *queue, const void *buffer, size_t length, uint64_t offset, uint32_t flags,
			 uint64_t user);
int selvedge_queue_flush(selvedge_queue *queue, uint64_t user);
int selvedge_queue_discard(selvedge_queue *queue, uint64_t offset, uint64_t length, uint64_t user);
int selvedge_queue_write_zeroes(selvedge_queue *queue, uint64_t offset, uint64_t length, uint32_t flags, uint64_t user);

/* Sends all requests that were added, in one system call per connection where possible. */
int selvedge_queue_submit(selvedge_queue *queue);

/*
 * Sends all requests that were added, and stores up to `most` completions, whose number it returns. It waits for `least`
 * of them, but no longer than `timeout_ms` (-1: no limit), and not when nothing is outstanding. With `least` 0 it does not
 * wait.
 */
int selvedge_queue_poll(selvedge_queue *queue, struct selvedge_completion *completions, uint32_t least, uint32_t most,
			int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
