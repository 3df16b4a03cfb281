/* Trains GPT-2 of 124 million parameters by llm.c's CPU program, in turns with bench/cpu: T 64, made-up parameters and tokens.

       serve BATCH    speaks the protocol of "cpu serve" on standard input and output

   llm.c reads parameters from a file of its own format, so one is written first. What llm.c prints goes to standard error. */
#define TESTING
#include "train_gpt2.c"

#include <sys/resource.h>

enum { LENGTH = 64, PADDED = 50304 };

static uint64_t state = 1;

/* from -1 to 1 */
static float number(void) {
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (float)(state >> 40) / (1 << 23) - 1;
}

static void write_parameters(const char *path) {
	int header[256] = {20240326, 3, 1024, 50257, 12, 12, 768, PADDED};
	GPT2Config config = {1024, 50257, PADDED, 12, 12, 768};
	size_t sizes[NUM_PARAMETER_TENSORS];
	FILE *file = fopenCheck(path, "wb");
	fwrite(header, sizeof(int), 256, file);
	fill_in_parameter_sizes(sizes, config);
	for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
		float *values = mallocCheck(sizes[i] * sizeof(float));
		/* Norms' weights are 2, 8 and 14; biases have odd numbers from 3. */
		for (size_t k = 0; k < sizes[i]; k++)
			values[k] = i == 2 || i == 8 || i == 14 ? 1 : i >= 3 && i % 2 == 1 ? 0 : 0.0346f * number();
		fwrite(values, sizeof(float), sizes[i], file);
		free(values);
	}
	if (ferror(file) || fclose(file)) {
		perror(path);
		exit(1);
	}
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double cpu_time(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + 1e-6 * (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

int main(int argc, char **argv) {
	int batch = argc > 1 ? atoi(argv[1]) : 4;
	FILE *answers = fdopen(dup(1), "w");
	dup2(2, 1);

	char path[] = "/tmp/llmc-parameters-XXXXXX";
	close(mkstemp(path));
	write_parameters(path);
	GPT2 model;
	gpt2_build_from_checkpoint(&model, path);
	unlink(path);

	int *inputs = mallocCheck(2 * batch * LENGTH * sizeof(int)), *targets = inputs + batch * LENGTH;
	for (int i = 0; i < 2 * batch * LENGTH; i++)
		inputs[i] = (int)((number() + 1) / 2 * 50256);

	int step = 0;
	char line[100];
	double seconds = 0;
	do {
		int n = 0;
		double cpu = cpu_time(), start = now();
		do {
			gpt2_forward(&model, inputs, targets, batch, LENGTH);
			gpt2_zero_grad(&model);
			gpt2_backward(&model);
			gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.1f, ++step);
			n++;
		} while (now() - start < seconds || step < 2);
		if (step > 2)
			fprintf(answers, "%d %f %f\n", n, now() - start, cpu_time() - cpu);
		else
			fprintf(answers, "ready\n");
		fflush(answers);
		for (seconds = -1; seconds < 0;) {
			if (!fgets(line, sizeof line, stdin)) {
				fprintf(stderr, "loss %f after %d steps\n", model.mean_loss, step);
				return 0;
			}
			if (!strcmp(line, "memory\n")) {
				struct rusage u;
				getrusage(RUSAGE_SELF, &u);
				fprintf(answers, "0 %ld %ld\n", u.ru_maxrss << 10, u.ru_maxrss << 10);
				fflush(answers);
			} else if (sscanf(line, "run %lf", &seconds) != 1) {
				fprintf(stderr, "got %s, want run SECONDS or memory\n", line);
				return 1;
			}
		}
	} while (1);
}
