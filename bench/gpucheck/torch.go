package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// torchScript trains the same network in PyTorch and prints a JSON object for each measurement.
//
//go:embed pytorch.py
var torchScript []byte

// A torchLine is what pytorch.py prints.
type torchLine struct {
	Torch, Cuda, Device string
	CuDNN               int
	Variant, Type       string
	Batch               int
	Rate                float64 `json:"images_per_s"`
	MS                  float64
	LeastMS             float64 `json:"least_ms"`
	Loss, MiB           float64
	Warm                float64 `json:"warm_s"`
	Error               string
	Late                bool
}

// torchCases are in the order of what they are worth: compiling takes most of the time. Where
// images are that few, the whole step as one graph is what helps.
var torchCases = []string{
	"eager bf16 512", "compile bf16 512", "eager bf16 1024", "compile-graph bf16 512", "compile bf16 1024", "eager-graph bf16 512",
	"reduce-overhead bf16 512", "compile-graph bf16 256", "eager bf16 256", "compile-graph bf16 1024", "max-autotune bf16 512", "compile bf16 256",
	"compile-graph bf16 128", "eager bf16 128", "compile bf16 128", "compile fp16 512", "eager fp16 512", "compile tf32 512",
}

const torchName = "PyTorch"

// checkTorch never fails: what PyTorch cannot do here is not our fault, and the bars say that they
// had nothing to compare with.
func checkTorch(c *checker) error {
	out, err := exec.CommandContext(c.ctx, c.python, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())").CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil {
		c.skipped(torchName, fmt.Sprintf("%s has none: %v: %s", c.python, err, lastLine(text)))
		return nil
	} else if !strings.HasSuffix(text, "True") && !c.small {
		c.skipped(torchName, fmt.Sprintf("that of %s sees no GPU: %s", c.python, lastLine(text)))
		return nil
	}
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "pytorch.py")
	if err := os.WriteFile(script, torchScript, 0o600); err != nil {
		return err
	}
	args := []string{script, "--cases", strings.Join(torchCases, ",")}
	if c.small {
		args = []string{script, "--device", "cpu", "--width", "8", "--size", "8", "--warm", "1", "--spell", "1", "--seconds", "0",
			"--cases", "eager bf16 4,compile bf16 4,eager-graph bf16 4,eager bf16 8"}
	}

	// What is begun later would be ended in the middle.
	if end, hasEnd := c.ctx.Deadline(); hasEnd {
		args = append(args, "--within", fmt.Sprintf("%.3f", 0.95*time.Until(end).Seconds()))
	}
	measured := 0
	err = c.eachLine(exec.CommandContext(c.ctx, c.python, args...), func(line string) {
		var l torchLine
		if json.Unmarshal([]byte(line), &l) != nil {
			// It is what libraries print.
			return
		}
		c.torchRow(l)
		if l.Rate > 0 {
			measured++
		}
	})
	switch {
	case c.ctx.Err() != nil:
		c.skipped("more of PyTorch", "no time is left for it")
	case err != nil:
		c.skipped("more of PyTorch", fmt.Sprintf("after %d measurements: %v", measured, err))
	}
	return nil
}

// eachLine runs a command and calls f for each line of its output, as it comes.
func (c *checker) eachLine(cmd *exec.Cmd, f func(line string)) error {
	r, w := io.Pipe()
	tail := &tailWriter{}
	cmd.Stdout, cmd.Stderr = w, io.MultiWriter(os.Stderr, tail)

	// It may leave others behind with its pipes.
	cmd.WaitDelay = time.Second
	read := make(chan struct{})
	go func() {
		defer close(read)
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if line = strings.TrimSpace(line); line != "" {
				f(line)
			}
			if err != nil {
				return
			}
		}
	}()
	err := cmd.Run()

	// It ended well, but a child of it still holds its pipes.
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	w.Close()
	<-read
	if line := failure(tail.String()); err != nil && line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	return err
}

func (c *checker) torchRow(l torchLine) {
	name := fmt.Sprintf("%s %s, batch %d", l.Variant, l.Type, l.Batch)
	switch {
	case l.Torch != "":
		c.infof(torchName, "%s, CUDA %s, cuDNN %d, %s", l.Torch, l.Cuda, l.CuDNN, l.Device)
	case l.Late:
		c.skipped(name, "no time is left for it")
	case l.Error != "":
		c.skipped(name, l.Error)
	case l.Rate > 0:
		c.measured(name, l.Rate, "images/s", "%.3f ms (least %.3f), loss %.3f, %.0f MiB, warm after %.1f s", l.MS, l.LeastMS, l.Loss, l.MiB, l.Warm)
	}
}
