/* A queue: depth, order-free completions, requests of many commands, threads, and the end of a target. */
#include <pthread.h>

#include "check.h"

#define DEPTH 16
#define BLOCK 4096
/* More commands than one request may have outstanding, whatever the target takes at a time. */
#define LENGTH ((size_t)40 << 20)
#define SIZE ((uint64_t)64 << 20)

/* Takes completions until `count` are there, each once, and gives the result of the last. */
static int take(selvedge_queue *queue, int count, uint64_t first)
{
	struct selvedge_completion completions[DEPTH];
	unsigned seen = 0;
	int result = 0;

	for (int taken = 0; taken < count;) {
		int got = selvedge_queue_poll(queue, completions, 1, DEPTH, -1);
		CHECK(got >= 1 && taken + got <= count);
		for (int at = 0; at < got; at++) {
			uint64_t number = completions[at].user - first;
			CHECK(number < (uint64_t)count && !(seen & 1u << number));
			CHECK(completions[at].reserved == 0);
			seen |= 1u << number;
			result = completions[at].result;
			if (count > 1)
				CHECK(result == 0);
		}
		taken += got;
	}
	return result;
}

static void check_depth(selvedge_queue *queue)
{
	static unsigned char written[DEPTH][BLOCK], read[DEPTH][BLOCK];
	struct selvedge_completion completion;

	/* Nothing is outstanding: no call waits. */
	CHECK(selvedge_queue_poll(queue, &completion, 1, 1, -1) == 0);
	for (unsigned number = 0; number < DEPTH; number++) {
		fill(written[number], BLOCK, number);
		CHECK(selvedge_queue_write(queue, written[number], BLOCK, (uint64_t)number * BLOCK, 0, 100 + number) == 0);
	}
	CHECK(selvedge_queue_flush(queue, 0) == -EAGAIN);
	CHECK(selvedge_queue_submit(queue) == 0);
	take(queue, DEPTH, 100);
	CHECK(selvedge_queue_flush(queue, 5) == 0);
	CHECK(take(queue, 1, 5) == 0);
	for (unsigned number = 0; number < DEPTH; number++)
		CHECK(selvedge_queue_read(queue, read[number], BLOCK, (uint64_t)number * BLOCK, number) == 0);
	take(queue, DEPTH, 0);
	CHECK(memcmp(written, read, sizeof read) == 0);
	CHECK(selvedge_queue_poll(queue, &completion, 0, 1, 0) == 0);
}

static void check_long_requests(selvedge_queue *queue)
{
	unsigned char *written = malloc(LENGTH), *read = malloc(LENGTH);

	CHECK(written && read);
	fill(written, LENGTH, 3);
	CHECK(selvedge_queue_write(queue, written, LENGTH, BLOCK, SELVEDGE_FUA, 1) == 0);
	CHECK(take(queue, 1, 1) == 0);
	CHECK(selvedge_queue_read(queue, read, LENGTH, BLOCK, 2) == 0);
	CHECK(take(queue, 1, 2) == 0);
	CHECK(memcmp(written, read, LENGTH) == 0);
	CHECK(selvedge_queue_write_zeroes(queue, BLOCK, 16 * BLOCK, 0, 1) == 0);
	CHECK(selvedge_queue_discard(queue, 17 * BLOCK, 16 * BLOCK, 2) == 0);
	take(queue, 2, 1);
	CHECK(selvedge_queue_write_zeroes(queue, 40 * BLOCK, SIZE - 40 * BLOCK, SELVEDGE_DEALLOCATE, 3) == 0);
	CHECK(take(queue, 1, 3) == 0);
	CHECK(selvedge_queue_read(queue, read, LENGTH, BLOCK, 2) == 0);
	CHECK(take(queue, 1, 2) == 0);
	CHECK(is_zero(read, 32 * BLOCK));
	CHECK(memcmp(written + 32 * BLOCK, read + 32 * BLOCK, 7 * BLOCK) == 0);
	CHECK(is_zero(read + 39 * BLOCK, LENGTH - 39 * BLOCK));
	free(written);
	free(read);
}

static void check_refusals(selvedge_queue *queue, const selvedge_options *options)
{
	struct selvedge_completion completion;
	unsigned char block[BLOCK];
	selvedge_queue *other;

	CHECK(selvedge_queue_read(queue, block, BLOCK, 512, 0) == -EINVAL);
	CHECK(selvedge_queue_read(queue, block, 0, 0, 0) == -EINVAL);
	CHECK(selvedge_queue_read(queue, block, BLOCK, SIZE, 0) == -EINVAL);
	CHECK(selvedge_queue_read(queue, block, BLOCK, UINT64_MAX - BLOCK + 1, 0) == -EINVAL);
	CHECK(selvedge_queue_write(queue, NULL, BLOCK, 0, 0, 0) == -EINVAL);
	CHECK(selvedge_queue_write(queue, block, BLOCK, 0, 8, 0) == -EINVAL);
	CHECK(selvedge_queue_poll(queue, NULL, 0, 1, 0) == -EINVAL);
	CHECK(selvedge_queue_poll(queue, &completion, 2, 1, 0) == -EINVAL);
	CHECK(selvedge_queue_submit(NULL) == -EINVAL);
	CHECK(selvedge_queue_open(options, 0, &other) == -EINVAL && other == NULL);
	CHECK(selvedge_queue_open(options, 8193, &other) == -EINVAL);
}

static void *use_elsewhere(void *queue)
{
	CHECK(selvedge_queue_flush(queue, 0) == -EPERM);
	CHECK(selvedge_queue_close(queue) == -EPERM);
	CHECK(strstr(selvedge_last_error(), "thread"));
	return NULL;
}

static void lose(selvedge_queue *queue)
{
	unsigned char block[BLOCK];

	wait_for_the_end_of_the_target();
	CHECK(selvedge_queue_read(queue, block, BLOCK, 0, 9) == 0);
	CHECK(take(queue, 1, 9) < 0);
	CHECK(strlen(selvedge_last_error()) > 0);
}

int main(int argc, char **argv)
{
	selvedge_options *options;
	selvedge_queue *queue;
	pthread_t thread;
	unsigned char block[BLOCK];

	CHECK(argc == 5);
	options = options_of(argv);
	CHECK(selvedge_options_set(options, "io_queues", "2") == 0);
	CHECK(selvedge_options_set(options, "ctrl_loss_tmo", "0") == 0);
	CHECK(selvedge_queue_open(options, DEPTH, &queue) == 0);
	CHECK(selvedge_queue_size(queue) == SIZE);
	CHECK(selvedge_queue_block_size(queue) == BLOCK);
	if (strcmp(argv[4], "lose") == 0) {
		lose(queue);
	} else {
		check_depth(queue);
		check_long_requests(queue);
		check_refusals(queue, options);
		CHECK(pthread_create(&thread, NULL, use_elsewhere, queue) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
		/* A request that is outstanding at the close does not touch its memory afterwards. */
		CHECK(selvedge_queue_read(queue, block, BLOCK, 0, 1) == 0);
		CHECK(selvedge_queue_submit(queue) == 0);
	}
	CHECK(selvedge_queue_close(queue) == 0);
	CHECK(selvedge_queue_close(NULL) == 0);
	selvedge_options_free(options);
	return 0;
}
