/* Checks of the test programs: a failed one ends the program, with its line and the library's last error. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <selvedge.h>

#define CHECK(condition)                                                                                         \
	do {                                                                                                     \
		if (!(condition)) {                                                                              \
			fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition,        \
				selvedge_last_error());                                                          \
			exit(1);                                                                                 \
		}                                                                                                \
	} while (0)

/* Options for the namespace that the arguments name. */
static inline selvedge_options *options_of(char **argv)
{
	selvedge_options *options = selvedge_options_new();

	CHECK(options != NULL);
	CHECK(selvedge_options_set(options, "traddr", argv[1]) == 0);
	CHECK(selvedge_options_set(options, "trsvcid", argv[2]) == 0);
	CHECK(selvedge_options_set(options, "subnqn", argv[3]) == 0);
	return options;
}

/* Reports that the namespace is open, and waits until the target has ended. */
static inline void wait_for_the_end_of_the_target(void)
{
	putchar('r');
	fflush(stdout);
	CHECK(getchar() == '\n');
}

/* Bytes that depend on their place and on `seed`. */
static inline void fill(unsigned char *bytes, size_t length, unsigned seed)
{
	for (size_t at = 0; at < length; at++)
		bytes[at] = (unsigned char)((at >> 20) * 7 + (at >> 12) * 31 + at + seed);
}

static inline int is_zero(const unsigned char *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++)
		if (bytes[at])
			return 0;
	return 1;
}
