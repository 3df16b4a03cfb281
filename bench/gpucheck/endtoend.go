package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are those that gpucheck runs, and a reason if one is missing.
func (c *checker) programs() (launch, cifar10, missing string) {
	launch, cifar10 = filepath.Join(c.bin, "launch"), filepath.Join(c.bin, "cifar10")
	for _, path := range []string{launch, cifar10} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			missing = path + " is not there: make build"
		} else if err != nil {
			missing = err.Error()
		}
	}
	return launch, cifar10, missing
}

var (
	epochLine = regexp.MustCompile(`Epoch (\d+): Train_loss ([0-9.]+), (\d+) examples? in [0-9.]+ s \((\d+) examples/s\)`)
	onGPU     = regexp.MustCompile(`Memory plan: .* on (each of )?cuda:`)
	testLine  = regexp.MustCompile(`Epoch (\d+): Test_acc ([0-9.]+)`)
)

// epochRates are the images a second of each epoch, over all workers.
func epochRates(text string) (rates []float64, loss float64) {
	for _, m := range epochLine.FindAllStringSubmatch(text, -1) {
		epoch, err1 := strconv.Atoi(m[1])
		rate, err2 := strconv.ParseFloat(m[4], 64)
		if err1 != nil || err2 != nil || epoch > 1000 {
			continue
		}
		for len(rates) <= epoch {
			rates = append(rates, 0)
		}
		rates[epoch] += rate

		// The pattern takes numbers alone.
		loss, _ = strconv.ParseFloat(m[2], 64)
	}
	return rates, loss
}

// whole is the line of a worker's table that says where the time of all epochs went.
var wholeLine = regexp.MustCompile(`(?m)^worker 0 *\| all .*$`)

// shares are the parts of a worker's time, if its table is there.
func shares(text string) string {
	line := wholeLine.FindString(text)
	var all []string
	fields := strings.Fields(line)
	names := []string{"compute", "wait", "data", "save"}
	for i, f := range fields {
		if f == "%" && len(all) < len(names) {
			all = append(all, names[len(all)]+" "+fields[i-1]+"%")
		}
	}
	return strings.Join(all, ", ")
}

// runCommand runs a program in a folder of its own and returns what it wrote, also of one that is
// ended since there is no time left.
func (c *checker) runCommand(command ...string) (string, time.Duration, error) {
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(c.ctx, command[0], command[1:]...)
	cmd.Dir = dir

	// Launch ends its processes.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%s\n", strings.Join(command, " "), out)
		if c.ctx.Err() != nil {
			err = errors.New("no time is left")
		}
		err = fmt.Errorf("%s: %w: %s", filepath.Base(command[0]), err, reason(string(out)))
	}
	return string(out), time.Since(begun), err
}

// jobFailed is the line in which launch says whose failure ends the job.
var jobFailed = regexp.MustCompile(`(?m)^.*ERROR (worker|server|scheduler) ?(\d*) .*failed.*$`)

// reason is what the output of a job says about why it failed: what the process that failed said
// last, else the first error, else the last line.
func reason(text string) string {
	if at := jobFailed.FindStringSubmatchIndex(text); at != nil {
		prefix := strings.TrimSpace(text[at[2]:at[3]] + " " + text[at[4]:at[5]])
		why := ""
		for line := range strings.Lines(text[:at[0]]) {
			if who, said, is := strings.Cut(line, "|"); is && strings.TrimSpace(who) == prefix && strings.TrimSpace(said) != "" {
				why = strings.TrimSpace(said)
			}
		}
		if why != "" {
			return prefix + ": " + why
		}
	}
	for line := range strings.Lines(text) {
		for _, word := range []string{"panic:", "fatal error:", "error:", "ERROR"} {
			if strings.Contains(line, word) {
				return strings.TrimSpace(line)
			}
		}
	}
	return lastLine(text)
}

// endToEndName begins the names of rows that are compared with the speed of the GPU alone.
const endToEndName = "1 worker, 1 server"

func checkEndToEnd(c *checker) error {
	launch, cifar10, missing := c.programs()
	if missing != "" {
		c.skipped("launch", missing)
		return nil
	}
	device := fmt.Sprintf("cuda:%d", c.device)
	common := []string{"--stem", "cifar", "--batch", "512", "--optimizer", "nag", "--lr", "0.02", "--momentum", "0.9",
		"--train-examples", "25600", "--test-examples", "512", "--epochs", "5"}
	if c.small {
		common = []string{"--width", "8", "--batch", "2", "--train-examples", "4", "--test-examples", "1", "--epochs", "2"}
	}
	auto := device
	if c.device == 0 && os.Getenv("CUDA_VISIBLE_DEVICES") == "" {
		auto = "auto"
	}
	half := []string{"--compression", "bf16", "--compression-pull", "bf16"}
	for _, j := range []struct {
		name   string
		n      string
		device string
		more   []string
	}{{endToEndName, "1", device, nil}, {"2 workers, 2 servers, one GPU", "2", device, nil}, {endToEndName + ", bf16 on the wire", "1", device, half},
		{"--devices " + auto, "1", auto, []string{"--epochs", "2"}}} {
		if c.late(j.name) {
			continue
		}
		command := append([]string{launch, "-n", j.n, "-s", j.n, "--", cifar10, "--devices", j.device}, common...)
		text, took, err := c.runCommand(append(command, j.more...)...)
		rates, loss := epochRates(text)
		if len(rates) < 2 {
			if err == nil {
				err = fmt.Errorf("there are no speeds of two epochs in %q", firstLine(text))
			}
			c.failed(j.name, err)
			continue
		}
		if !onGPU.MatchString(text) {
			c.failed(j.name, errors.New("no worker says that it trains on a GPU"))
			continue
		}
		best := 0.0

		// The first rate has preparations in it.
		for _, r := range rates[1:] {
			best = max(best, r)
		}
		r := row{Name: j.name, Status: info, Value: best, Unit: "images/s", Detail: fmt.Sprintf("epochs %.0f; last loss %.3f; %.1f s in all; %s", rates, loss, took.Seconds(), shares(text))}

		// A job that was ended, or did not end well, has rates, too.
		if err != nil {
			r.Detail += "; " + err.Error()
			if c.ctx.Err() == nil {
				r.Status = fail
			}
		}
		c.row(r)
	}
	return c.checkExchange(launch)
}
