/* Calls that wait: contents, sizes, refusals, and the end of a target. */
#include "check.h"

/* Many commands, in whole blocks of 4096 bytes. */
#define LENGTH ((size_t)3 << 20)
#define SIZE ((uint64_t)64 << 20)

static void check_options(char **argv)
{
	selvedge_options *options = options_of(argv);
	selvedge_volume *volume = (selvedge_volume *)options;

	CHECK(selvedge_options_set(options, "colour", "red") == -ENOENT);
	CHECK(strstr(selvedge_last_error(), "colour"));
	CHECK(selvedge_options_set(options, "nsid", "0") == -EINVAL);
	CHECK(selvedge_options_set(options, NULL, "0") == -EINVAL);
	CHECK(selvedge_options_set(NULL, "nsid", "1") == -EINVAL);
	CHECK(selvedge_open(options, NULL) == -EINVAL);
	CHECK(selvedge_open(NULL, &volume) == -EINVAL && volume == NULL);
	CHECK(selvedge_options_set(options, "nsid", "7") == 0);
	CHECK(selvedge_open(options, &volume) == -ENOENT && volume == NULL);
	/* Port 1 of the loopback has no listener. */
	CHECK(selvedge_options_set(options, "trsvcid", "1") == 0);
	CHECK(selvedge_open(options, &volume) == -ECONNREFUSED);
	selvedge_options_free(options);
	selvedge_options_free(NULL);
}

static void check_contents(const selvedge_volume *volume)
{
	unsigned char *written = malloc(LENGTH), *read = malloc(LENGTH);

	CHECK(written && read);
	fill(written, LENGTH, 7);
	CHECK(selvedge_pwrite(volume, written, LENGTH, 4096, 0) == 0);
	CHECK(selvedge_pread(volume, read, LENGTH, 4096) == 0);
	CHECK(memcmp(written, read, LENGTH) == 0);
	CHECK(selvedge_pwrite(volume, written + 4096, 4096, SIZE - 4096, SELVEDGE_FUA) == 0);
	CHECK(selvedge_pread(volume, read, 4096, SIZE - 4096) == 0);
	CHECK(memcmp(written + 4096, read, 4096) == 0);
	CHECK(selvedge_flush(volume) == 0);
	CHECK(selvedge_write_zeroes(volume, 8192, 4096, 0) == 0);
	CHECK(selvedge_write_zeroes(volume, 12288, 4096, SELVEDGE_DEALLOCATE) == 0);
	CHECK(selvedge_discard(volume, 16384, 4096) == 0);
	CHECK(selvedge_pread(volume, read, LENGTH, 4096) == 0);
	CHECK(memcmp(written, read, 4096) == 0);
	CHECK(is_zero(read + 4096, 3 * 4096));
	CHECK(memcmp(written + 16384, read + 16384, LENGTH - 16384) == 0);
	free(written);
	free(read);
}

static void check_refusals(const selvedge_volume *volume)
{
	unsigned char block[4096];

	CHECK(selvedge_pread(volume, block, sizeof block, 512) == -EINVAL);
	CHECK(selvedge_pread(volume, block, 512, 0) == -EINVAL);
	CHECK(selvedge_pread(volume, block, sizeof block, SIZE) == -EINVAL);
	CHECK(selvedge_pread(volume, block, sizeof block, UINT64_MAX - 4095) == -EINVAL);
	CHECK(selvedge_pread(volume, block, SIZE_MAX, 0) == -EINVAL);
	CHECK(selvedge_pread(volume, NULL, sizeof block, 0) == -EINVAL);
	CHECK(strstr(selvedge_last_error(), "buffer"));
	CHECK(selvedge_pwrite(volume, block, sizeof block, 0, 4) == -EINVAL);
	CHECK(selvedge_pwrite(NULL, block, sizeof block, 0, 0) == -EINVAL);
	CHECK(selvedge_flush(NULL) == -EINVAL);
	CHECK(selvedge_discard(volume, 0, SIZE + 4096) == -EINVAL);
	CHECK(selvedge_write_zeroes(volume, 0, 4096, SELVEDGE_FUA) == -EINVAL);
	CHECK(selvedge_size(NULL) == 0 && selvedge_block_size(NULL) == 0);
}

int main(int argc, char **argv)
{
	unsigned char block[4096];
	selvedge_volume *volume;
	selvedge_options *options;

	CHECK(argc == 5);
	CHECK(strlen(selvedge_version()) >= 5);
	CHECK(strcmp(selvedge_last_error(), "") == 0);
	options = options_of(argv);
	if (strcmp(argv[4], "lose") == 0) {
		CHECK(selvedge_options_set(options, "ctrl_loss_tmo", "0") == 0);
		CHECK(selvedge_open(options, &volume) == 0);
		wait_for_the_end_of_the_target();
		CHECK(selvedge_pread(volume, block, sizeof block, 0) < 0);
		CHECK(selvedge_pwrite(volume, block, sizeof block, 0, 0) < 0);
		CHECK(strlen(selvedge_last_error()) > 0);
	} else {
		check_options(argv);
		CHECK(selvedge_open(options, &volume) == 0);
		CHECK(selvedge_size(volume) == SIZE);
		CHECK(selvedge_block_size(volume) == 4096);
		check_contents(volume);
		check_refusals(volume);
	}
	selvedge_options_free(options);
	selvedge_close(volume);
	selvedge_close(NULL);
	return 0;
}
