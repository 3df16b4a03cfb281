package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// torchScript trains the same network in PyTorch and prints a JSON object for each measurement.
//
//go:embed torch.py
var torchScript []byte

// A torchLine is what torch.py prints.
type torchLine struct {
	Torch, Cuda, Device string
	CuDNN               int
	Variant, Type       string
	Batch               int
	Rate                float64 `json:"images_per_s"`
	MS                  float64
	Loss, MiB           float64
	Warm                float64 `json:"warm_s"`
	Error               string
}

func checkTorch(c *checker) error {
	name := "PyTorch"
	out, err := exec.CommandContext(c.ctx, c.python, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())").CombinedOutput()
	if text := strings.TrimSpace(string(out)); err != nil || !strings.HasSuffix(text, "True") {
		c.skipped(name, fmt.Sprintf("%s has no PyTorch that sees a GPU: %v %s", c.python, err, lastLine(text)))
		return nil
	}
	dir, err := os.MkdirTemp("", "gpucheck-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "torch_bench.py")
	if err := os.WriteFile(script, torchScript, 0o600); err != nil {
		return err
	}
	// The best batches come first: a compiled network takes long to be ready.
	cmd := exec.CommandContext(c.ctx, c.python, script, "--batches", "512,1024,256,128", "--variants", "eager,compile", "--types", "bf16,fp16")
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l torchLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			continue // what libraries print
		}
		c.torchRow(l)
	}
	err = cmd.Wait()
	if c.late("more of PyTorch") {
		return nil
	}
	return err
}

func (c *checker) torchRow(l torchLine) {
	name := fmt.Sprintf("%s %s, batch %d", l.Variant, l.Type, l.Batch)
	switch {
	case l.Torch != "":
		c.infof("PyTorch", "%s, CUDA %s, cuDNN %d, %s", l.Torch, l.Cuda, l.CuDNN, l.Device)
	case l.Error != "":
		c.skipped(name, l.Error)
	default:
		c.measured(name, l.Rate, "images/s", "%.3f ms, loss %.3f, %.0f MiB, warm after %.1f s", l.MS, l.Loss, l.MiB, l.Warm)
	}
}
