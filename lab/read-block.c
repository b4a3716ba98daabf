/* Reads the first block of a namespace, compiled with the packages of libselvedge: read-block ADDRESS NQN. */
#include <stdio.h>
#include <selvedge.h>

int main(int count, char **words)
{
	selvedge_options *options = selvedge_options_new();
	selvedge_volume *volume;
	char block[4096];

	if (count != 3 || selvedge_options_set(options, "traddr", words[1]) ||
	    selvedge_options_set(options, "subnqn", words[2]) || selvedge_open(options, &volume) ||
	    selvedge_pread(volume, block, sizeof block, 0)) {
		fprintf(stderr, "%s\n", selvedge_last_error());
		return 1;
	}
	printf("%llu bytes\n", (unsigned long long)selvedge_size(volume));
	selvedge_close(volume);
	selvedge_options_free(options);
	return 0;
}
