/* SPDX-License-Identifier: MIT */
/*
 * An engine for fio that uses a namespace of any NVMe/TCP target from userspace, by libselvedge. Build it against the
 * headers of the very fio that loads it (3.33 or later), as docs/c-library.md shows; then
 *
 *   fio --ioengine=external:./selvedge.so --thread --traddr=10.0.0.1 --subnqn=NQN --name=job --rw=randread
 *
 * Each job has connections of its own and does its I/O on its own thread. The name of a job's file means nothing.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fio.h"
#include "optgroup.h"

#include <selvedge.h>

/* Options of a job, passed to the library as they were written: name, and text for --enghelp. */
#define OPTIONS(X)                                                                                               \
	X(traddr, "Address or name of the target, with :PORT if not trsvcid; several, separated by commas")      \
	X(trsvcid, "Port of the target (4420)")                                                                  \
	X(subnqn, "NQN of the subsystem")                                                                        \
	X(nsid, "Number of the namespace (1)")                                                                   \
	X(hostnqn, "NQN of this host")                                                                           \
	X(hostid, "Identifier of this host, a UUID")                                                             \
	X(host_iface, "Local network interface")                                                                 \
	X(dhchap_secret_file, "File with this host's secret")                                                    \
	X(dhchap_ctrl_secret_file, "File with the subsystem's secret")                                           \
	X(tls_key_file, "File with TLS keys")                                                                    \
	X(concat, "1 to derive the TLS key from the authentication (0)")                                         \
	X(io_queues, "Connections of each job on each path (1)")                                                 \
	X(queue_size, "Entries of each NVMe queue (what iodepth needs, 128 at least)")                           \
	X(keep_alive_tmo, "Keep alive time-out in seconds (5)")                                                  \
	X(ctrl_loss_tmo, "Seconds after which a lost path is given up, -1 for never (600)")                      \
	X(hdr_digest, "1 for header digests (0)")                                                                \
	X(data_digest, "1 for data digests (0)")

struct job_options {
	void *pad; /* fio takes offset 0 for none */
#define FIELD(option, text) char *option;
	OPTIONS(FIELD)
#undef FIELD
};

static struct fio_option engine_options[] = {
#define ENTRY(option, text)                                                                                      \
	{                                                                                                        \
		.name = #option,                                                                                 \
		.lname = #option,                                                                                \
		.type = FIO_OPT_STR_STORE,                                                                       \
		.off1 = offsetof(struct job_options, option),                                                    \
		.help = text,                                                                                    \
		.category = FIO_OPT_C_ENGINE,                                                                    \
		.group = FIO_OPT_G_INVALID,                                                                      \
	},
	OPTIONS(ENTRY)
#undef ENTRY
	{ .name = NULL },
};

/* State of a job. */
struct job {
	selvedge_queue *queue;
	struct selvedge_completion *completions;
	/* Requests since the last commit. */
	struct io_u **added;
	unsigned int added_count;
};

static int report(const char *action, int result)
{
	log_err("selvedge: %s: %s\n", action, selvedge_last_error());
	return -result;
}

/* The job's options for the library; NULL after a failure, which is reported. */
static selvedge_options *library_options(struct thread_data *td)
{
	const struct job_options *job = td->eo;
	const struct {
		const char *name, *value;
	} options[] = {
#define PAIR(option, text) { #option, job->option },
		OPTIONS(PAIR)
#undef PAIR
	};
	selvedge_options *made = selvedge_options_new();

	for (size_t at = 0; at < sizeof(options) / sizeof(options[0]); at++) {
		int result = 0;

		if (options[at].value)
			result = selvedge_options_set(made, options[at].name, options[at].value);
		if (result) {
			report("options", result);
			selvedge_options_free(made);
			return NULL;
		}
	}
	return made;
}

/* Finds the namespace's size, in the process that starts the jobs. */
static int setup(struct thread_data *td)
{
	selvedge_options *options = library_options(td);
	selvedge_volume *volume;
	struct fio_file *file;
	unsigned int at;
	int result;

	if (!options)
		return 1;
	result = selvedge_open(options, &volume);
	selvedge_options_free(options);
	if (result)
		return report("open", result);
	for_each_file(td, file, at) {
		file->real_file_size = selvedge_size(volume);
		file->filetype = FIO_TYPE_BLOCK;
		fio_file_set_size_known(file);
	}
	/* No thread of the library is left for a fork to meet. */
	selvedge_close(volume);
	return 0;
}

static void cleanup(struct thread_data *td)
{
	struct job *job = td->io_ops_data;

	if (!job)
		return;
	selvedge_queue_close(job->queue);
	free(job->completions);
	free(job->added);
	free(job);
	td->io_ops_data = NULL;
}

/* Connects, on the job's own thread. */
static int init(struct thread_data *td)
{
	selvedge_options *options;
	struct job *job;
	int result;

	job = calloc(1, sizeof(*job));
	if (!job)
		return ENOMEM;
	td->io_ops_data = job;
	job->completions = calloc(td->o.iodepth, sizeof(*job->completions));
	job->added = calloc(td->o.iodepth, sizeof(*job->added));
	options = job->completions && job->added ? library_options(td) : NULL;
	if (!options)
		return 1;
	result = selvedge_queue_open(options, td->o.iodepth, &job->queue);
	selvedge_options_free(options);
	return result ? report("open", result) : 0;
}

static enum fio_q_status queue(struct thread_data *td, struct io_u *io_u)
{
	struct job *job = td->io_ops_data;
	uint64_t user = (uintptr_t)io_u;
	int result;

	switch (io_u->ddir) {
	case DDIR_READ:
		result = selvedge_queue_read(job->queue, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, user);
		break;
	case DDIR_WRITE:
		result = selvedge_queue_write(job->queue, io_u->xfer_buf, io_u->xfer_buflen, io_u->offset, 0, user);
		break;
	case DDIR_TRIM:
		result = selvedge_queue_discard(job->queue, io_u->offset, io_u->xfer_buflen, user);
		break;
	case DDIR_SYNC:
	case DDIR_DATASYNC:
		result = selvedge_queue_flush(job->queue, user);
		break;
	default:
		result = -EOPNOTSUPP;
	}
	if (result == -EAGAIN)
		return FIO_Q_BUSY;
	if (result) {
		/* fio ends the job at the first of these. */
		io_u->error = report(io_ddir_name(io_u->ddir), result);
		return FIO_Q_COMPLETED;
	}
	job->added[job->added_count++] = io_u;
	return FIO_Q_QUEUED;
}

/* Sends what was queued. Its time counts from here, before the system call. */
static int commit(struct thread_data *td)
{
	struct job *job = td->io_ops_data;
	struct timespec now;

	if (!job->added_count)
		return 0;
	if (fio_fill_issue_time(td)) {
		fio_gettime(&now, NULL);
		for (unsigned int at = 0; at < job->added_count; at++) {
			job->added[at]->issue_time = now;
			io_u_queued(td, job->added[at]);
		}
		if (td->o.read_iolog_file)
			td->last_issue = now;
	}
	io_u_mark_submit(td, job->added_count);
	job->added_count = 0;
	return selvedge_queue_submit(job->queue);
}

static int getevents(struct thread_data *td, unsigned int least, unsigned int most, const struct timespec *limit)
{
	struct job *job = td->io_ops_data;
	int timeout_ms = -1;

	if (limit)
		timeout_ms = limit->tv_sec * 1000 + limit->tv_nsec / 1000000;
	return selvedge_queue_poll(job->queue, job->completions, least, most, timeout_ms);
}

static struct io_u *event(struct thread_data *td, int number)
{
	struct job *job = td->io_ops_data;
	const struct selvedge_completion *completion = &job->completions[number];
	struct io_u *io_u = (struct io_u *)(uintptr_t)completion->user;

	io_u->error = -completion->result;
	io_u->resid = completion->result ? io_u->xfer_buflen : 0;
	return io_u;
}

static char *errdetails(struct io_u *io_u)
{
	return strdup(selvedge_last_error());
}

/* A file is the namespace, which the queue has open. */
static int no_file_work(struct thread_data *td, struct fio_file *file)
{
	return 0;
}

struct ioengine_ops ioengine = {
	.name = "selvedge",
	.version = FIO_IOOPS_VERSION,
	.flags = FIO_DISKLESSIO | FIO_NOEXTEND | FIO_NODISKUTIL | FIO_ASYNCIO_SETS_ISSUE_TIME,
	.setup = setup,
	.init = init,
	.cleanup = cleanup,
	.queue = queue,
	.commit = commit,
	.getevents = getevents,
	.event = event,
	.errdetails = errdetails,
	.open_file = no_file_work,
	.close_file = no_file_work,
	.invalidate = no_file_work,
	.option_struct_size = sizeof(struct job_options),
	.options = engine_options,
};
