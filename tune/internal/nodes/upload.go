package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/paragon-train/paragon/internal/hosts/agent"
	"github.com/paragon-train/paragon/internal/hosts/hosts"
	"github.com/paragon-train/paragon/internal/hosts/ssh"
)

// regular says which of the files cannot be uploaded.
func regular(files []string) error {
	for _, file := range files {
		info, err := os.Stat(file)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", file)
		}
		if err != nil {
			return fmt.Errorf("tune: upload a file: %w", err)
		}
	}
	return nil
}

// uploadAll copies files to all hosts in use.
func (s *hostSet) uploadAll(ctx context.Context, files []string) error {
	s.mu.Lock()
	// Hosts that come later get them, too.
	s.files = append(s.files, files...)
	s.mu.Unlock()
	all := s.inUse()
	errs := make([]error, len(all))
	var copying sync.WaitGroup
	for i, h := range all {
		copying.Go(func() { errs[i] = s.upload(ctx, h, files) })
	}
	copying.Wait()
	return errors.Join(errs...)
}

// upload copies files to one host.
func (s *hostSet) upload(ctx context.Context, h hosts.Host, files []string) error {
	m, err := s.remote.Dial(ctx, h)
	if err != nil {
		return fmt.Errorf("tune: upload files: %w", WithoutLaunch(err))
	}
	defer m.Close()
	folder := ssh.Folder(s.cfg.Folder)
	_, err = m.Ask(ctx, agent.Question{MakeDir: folder})
	for _, file := range files {
		if err == nil {
			err = s.remote.Copy(ctx, m, file, folder)
		}
	}
	if err != nil {
		return fmt.Errorf("tune: upload files: %w", WithoutLaunch(err))
	}
	return nil
}
