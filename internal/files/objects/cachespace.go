package objects

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paragon-train/paragon/internal/files/lockfile"
)

// A cacheSpace bounds the size of a cache's folder, together with the other processes that use it.
//
// The file "used" has the bytes that blocks take or will take; "used.lock" guards it, and the names
// of files. A block's bytes are added before it is written, when its part file is made. When they
// would go over the bound, all files are counted anew, and the blocks that were not used for
// longest are removed until a tenth of the bound is free. So a process that is killed costs too
// high a count for a while, never too low a one.
type cacheSpace struct {
	cfg CacheConfig
}

func (s *cacheSpace) file(name string) string { return filepath.Join(s.cfg.Dir, name) }

// keep writes the file of a block whose lock the caller has.
func (s *cacheSpace) keep(path string, data []byte) (err error) {
	part := path + partSuffix
	if err := s.reserve(part, blockFileSize(int64(len(data)))); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// What is left is removed when files are counted.
			_ = s.cfg.fs.Remove(part)
		}
	}()
	f, err := s.cfg.fs.Create(part)
	if err != nil {
		return err
	}
	_, err = f.Write(blockHeader(data))
	if err == nil {
		_, err = f.Write(data)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	return s.cfg.fs.Rename(part, path)
}

func (s *cacheSpace) lock() (*os.File, error) { return lockfile.Create(s.file("used.lock")) }

// reserve makes room for so many bytes, and creates the empty part file that stands for them.
func (s *cacheSpace) reserve(part string, size int64) error {
	lock, err := s.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	used, ok := s.read()
	if !ok || used+size > s.cfg.Bytes {
		if used, err = s.evict(size); err != nil {
			return err
		}
	}
	if part != "" {
		f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE, 0o666)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return os.WriteFile(s.file("used"), strconv.AppendInt(nil, used+size, 10), 0o666)
}

// read returns the bytes in use. It is not ok if the file is not there or makes no sense.
func (s *cacheSpace) read() (used int64, ok bool) {
	text, err := os.ReadFile(s.file("used"))
	if err != nil {
		return 0, false
	}
	used, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return used, err == nil && used >= 0
}

// A keptBlock is a block's file.
type keptBlock struct {
	path string
	size int64
	used time.Time
}

// evict counts the bytes in use, and removes blocks until size more fit. It needs used.lock.
func (s *cacheSpace) evict(size int64) (used int64, err error) {
	var blocks []keptBlock
	dirs, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(s.file(d.Name()))
		if err != nil {
			return 0, err
		}
		for _, f := range files {
			path := filepath.Join(s.cfg.Dir, d.Name(), f.Name())
			switch {
			case strings.HasSuffix(f.Name(), lockSuffix):
			case strings.HasSuffix(f.Name(), partSuffix):
				if !s.abandoned(path) {
					used += blockFileSize(s.cfg.Block)
				}
			default:
				info, err := f.Info()
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return 0, err
				}
				blocks = append(blocks, keptBlock{path, info.Size(), info.ModTime()})
				used += info.Size()
			}
		}
	}
	if used+size <= s.cfg.Bytes {
		return used, nil
	}
	slices.SortFunc(blocks, func(a, b keptBlock) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	for _, b := range blocks {
		if used+size <= s.cfg.Bytes-s.cfg.Bytes/10 {
			break
		}
		if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		used -= b.size
	}
	if used+size > s.cfg.Bytes {
		return 0, fmt.Errorf("no room for %d bytes: blocks being fetched take %d of %d", size, used, s.cfg.Bytes)
	}
	return used, nil
}

// abandoned removes a part file that no process is writing.
func (s *cacheSpace) abandoned(part string) bool {
	lock, err := takeLock(strings.TrimSuffix(part, partSuffix))
	if err != nil {
		return false
	}
	defer lock.unlock()
	err = os.Remove(part)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
