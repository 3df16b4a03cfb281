package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
)

// ErrPickle: a file was written by torch.save, as .pth, .pt and pytorch_model.bin are. Reading a
// pickle runs what it says, so it is never read; the error says how to convert it.
var ErrPickle = errors.New("a pickle of torch.save, not safetensors")

// isPickle recognises the first bytes of a file: a zip archive whose first file is a pickle
// (PyTorch 1.6 and later), or a pickle of protocol 2 to 5 (before).
func isPickle(head []byte) bool {
	// A pickle begins with protocol; a file of safetensors with a length and a brace.
	const protocol = 0x80
	return bytes.HasPrefix(head, []byte("PK\x03\x04")) && bytes.Contains(head, []byte("data.pkl")) ||
		len(head) > 2 && head[0] == protocol && head[1] >= 2 && head[1] <= 5 && (len(head) < 9 || head[8] != '{')
}

// pickleError says how to convert the file, in two lines of Python.
func pickleError(from string) error {
	to := strings.TrimSuffix(from, path.Ext(from)) + path.Ext(StoreFile)
	if to == from {
		to = strings.TrimSuffix(from, path.Ext(from)) + "-converted" + path.Ext(StoreFile)
	}
	return fmt.Errorf(`checkpoint: %s: %w; convert it where PyTorch is (a state dict within a larger one is named by its key, such as ["state_dict"], behind the second bracket of load):
  import torch, safetensors.torch
  safetensors.torch.save_file({k: v.clone().contiguous() for k, v in torch.load(%q, map_location="cpu", weights_only=True).items()}, %q)`,
		from, ErrPickle, from, to)
}

// isFile reports whether a URI whose last part is name is that of a file, and not of a folder of
// checkpoints.
func isFile(uri, name string) bool {
	switch path.Ext(name) {
	case path.Ext(StoreFile), ".pth", ".pt", ".bin", ".ckpt", ".pkl":
		return true
	}
	if strings.HasSuffix(name, indexEnding) {
		return true
	}
	file, err := LocalPath(uri)
	if err != nil {
		return false
	}
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}
