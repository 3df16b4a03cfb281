package data

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/paragon-train/paragon/internal/files/objects"
)

// A File is something to fetch: where it is and how it is known.
type File struct {
	// Name is the file's name in the folder it is fetched to.
	Name string
	// URLs are tried in order.
	URLs []string
	// Bytes is the file's length.
	Bytes int64
	// MD5 is its digest in hex, as its authors publish it.
	MD5 string
}

var cifar10Archive = File{
	Name:  "cifar-10-binary.tar.gz",
	URLs:  []string{"https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"},
	Bytes: 170_052_171,
	MD5:   "c32a1d4ab5d03f1284b67883e8d87530",
}

var mnistFiles = []File{
	mnistFile("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
	mnistFile("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
	mnistFile("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
	mnistFile("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
}

func mnistFile(name string, bytes int64, digest string) File {
	return File{Name: name, Bytes: bytes, MD5: digest, URLs: []string{
		"https://ossci-datasets.s3.amazonaws.com/mnist/" + name,
		"https://storage.googleapis.com/cvdf-datasets/mnist/" + name,
	}}
}

// FetchCIFAR10 brings the archive of CIFAR-10 (170 MB) into the folder, unless
// a file of that name is there; LoadCIFAR10 reads it. A nil client is
// http.DefaultClient.
func FetchCIFAR10(ctx context.Context, client *http.Client, dir string) error {
	return Fetch(ctx, client, dir, cifar10Archive)
}

// FetchMNIST brings the four files of MNIST (12 MB) into the folder, those of
// them that are not there; LoadMNIST reads them.
func FetchMNIST(ctx context.Context, client *http.Client, dir string) error {
	return Fetch(ctx, client, dir, mnistFiles...)
}

// Fetch brings files into a folder, which it makes. A file whose name is there
// already is left as it is. What is under way has ".part" after its name; a
// fetch that was stopped goes on where it was, where the server can do that.
// Only a file with the right length and digest gets its name. A server that
// sends nothing for a minute is given up.
func Fetch(ctx context.Context, client *http.Client, dir string, files ...File) error {
	if client == nil {
		client = http.DefaultClient
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("data: fetch: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		var errs []error
		for _, url := range f.URLs {
			err := fetchFrom(ctx, client, url, path, f)
			if err == nil {
				errs = nil
				break
			}
			errs = append(errs, fmt.Errorf("data: fetch %s: %w", url, err))
			if ctx.Err() != nil {
				break
			}
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%w; download it by hand to %s, or run again to resume", err, path)
		}
	}
	return nil
}

func fetchFrom(ctx context.Context, client *http.Client, url, path string, f File) error {
	part := path + ".part"
	for again := false; ; again = true {
		had, err := fetchRest(ctx, client, url, part, f.Bytes)
		if err != nil {
			return err
		}
		wrong := check(part, f)
		if wrong == nil {
			break
		}
		// What an earlier fetch left may be of another file: once from the start.
		if err := os.Remove(part); err != nil {
			return err
		}
		if had == 0 || again {
			return wrong
		}
	}
	return os.Rename(part, path)
}

// fetchRest appends to the part what it lacks and returns how long it was.
func fetchRest(ctx context.Context, client *http.Client, url, part string, want int64) (had int64, err error) {
	out, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if had, err = out.Seek(0, io.SeekEnd); err != nil || had == want {
		return had, err
	}
	if had > want {
		had = 0
	}
	ctx, guard := objects.NewGuard(ctx, objects.StallLimit)
	defer guard.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return had, err
	}
	if had > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", had))
	}
	resp, err := client.Do(req)
	if err != nil {
		return had, objects.Because(ctx, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && had > 0 && startOf(resp.Header.Get("Content-Range")) == had:
	case resp.StatusCode == http.StatusOK:
		had = 0
	default:
		return had, fmt.Errorf("got status %s, want 200 or 206 from byte %d", resp.Status, had)
	}
	if err := out.Truncate(had); err != nil {
		return had, err
	}
	if _, err := out.Seek(had, io.SeekStart); err != nil {
		return had, err
	}
	n, err := io.Copy(out, guard.Body(io.LimitReader(resp.Body, want-had+1)))
	if err != nil {
		return had, fmt.Errorf("after %d of %d bytes: %w", had+n, want, objects.Because(ctx, err))
	}
	return had, nil
}

// startOf returns the first byte of "bytes 100-199/200", or -1.
func startOf(contentRange string) int64 {
	s, ok := strings.CutPrefix(contentRange, "bytes ")
	if !ok {
		return -1
	}
	first, _, _ := strings.Cut(s, "-")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// check returns an error unless the file has the length and digest of f.
func check(path string, f File) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	hash := md5.New()
	n, err := io.Copy(hash, in)
	if err != nil {
		return err
	}
	if n != f.Bytes {
		return fmt.Errorf("got %d bytes, want %d", n, f.Bytes)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != f.MD5 {
		return fmt.Errorf("got MD5 %s, want %s", got, f.MD5)
	}
	return nil
}
