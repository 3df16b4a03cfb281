// Package addressfile has the addresses at which a launcher listens: as people write them behind
// --join, and in the file that launch writes for those who come (--address-file).
//
// The file has one address on each line. It appears whole and disappears with its launcher, so that
// whoever finds one finds a launcher that was there a moment ago; another launcher may have
// replaced it meanwhile, whose file stays.
package addressfile

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxBytes bounds a file.
const maxBytes = 64 << 10

// Parse reads the value of --join: addresses with commas between them, or @FILE. A file is read
// when the addresses are asked for, and each time anew: a launcher that takes over writes it again.
func Parse(s string) (func() ([]string, error), error) {
	if path, ok := strings.CutPrefix(s, "@"); ok {
		if path == "" {
			return nil, errors.New("--join is @, want @FILE")
		}
		return func() ([]string, error) {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if len(b) > maxBytes {
				return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, len(b), maxBytes)
			}
			all, err := check(strings.Fields(string(b)))
			if err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
			return all, err
		}, nil
	}
	if s == "" {
		return nil, errors.New("give --join ADDR, where the launcher listens")
	}
	all, err := check(strings.Split(s, ","))
	if err != nil {
		return nil, fmt.Errorf("--join: %w", err)
	}
	return func() ([]string, error) { return all, nil }, nil
}

// check refuses what is no host:port, and a list without any.
func check(all []string) ([]string, error) {
	for _, a := range all {
		host, port, err := net.SplitHostPort(a)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("%q is not an address, want host:port", a)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no address, want host:port")
	}
	return all, nil
}

// Write writes the file so that nobody reads a part of it. Everybody may read it: there is no
// secret inside.
func Write(path string, addresses []string) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = next.WriteString(strings.Join(addresses, "\n") + "\n")
	err = errors.Join(err, next.Chmod(0o644), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
	}
	return err
}

// Remove removes the file, unless another launch has written it meanwhile.
func Remove(path string, addresses []string) {
	if b, err := os.ReadFile(path); err == nil && string(b) == strings.Join(addresses, "\n")+"\n" {
		os.Remove(path)
	}
}
