// Package s3test has a server on this machine that speaks the part of S3's protocol that programs
// use to read, write and list objects, for tests of what reads data from buckets or keeps
// checkpoints there.
//
//	server := s3test.New(t)
//	server.AddFolder("train", folder)
//	images, err := data.OpenImages(ctx, server.URL("train"), data.OpenOptions{})
//
// It checks that requests are signed by its account, answers ranges and conditions on ETags, and
// lists in pages. Latency and Fault make it as slow and as unreliable as a test wants it.
package s3test

import (
	"cmp"
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// KeyID and Secret are those of the account that New puts in the environment.
const (
	KeyID  = "s3test"
	Secret = "s3test-secret"
)

// bucketName is that of the only bucket.
const bucketName = "bucket"

// A Server has one bucket. Its methods may be called while it answers.
type Server struct {
	// Latency passes before the first byte of each answer. Set it before the first request.
	Latency time.Duration
	// Fault, if it is not nil, is called for each request before it is answered; what it
	// returns is the answer in place of the true one. Set it before the first request; it may
	// be called from several goroutines at once.
	Fault func(r *http.Request) Answer

	server *httptest.Server
	counts Counts

	// mu guards objects.
	mu      sync.RWMutex
	objects map[string]object
}

// An Answer is one that goes wrong. The zero value is the true answer.
type Answer struct {
	// Status is the HTTP status, such as 503, with Code as S3's error, such as SlowDown.
	Status int
	Code   string
	// Cut ends the connection after so many bytes of the body, where it is above 0.
	Cut int64
	// Stall sends nothing more after so many bytes of the body, where it is above 0, until the
	// client has gone.
	Stall int64
	// Heedless makes the server leave out the condition of a request, as some do that speak
	// S3's protocol.
	Heedless bool
}

// Counts are requests that were answered, and bytes of objects that were sent.
type Counts struct{ Gets, Heads, Lists, Puts, Bytes atomic.Int64 }

// An object is in memory, or a file.
type object struct {
	content []byte
	// file has the object's bytes in place of content.
	file string
	size int64

	// etag has its quotes.
	etag string
}

// New starts an empty server, which ends with the test, and puts its account in the test's
// environment.
func New(t testing.TB) *Server {
	t.Helper()
	s := Start()
	t.Cleanup(s.Close)
	for name, value := range Environment() {
		t.Setenv(name, value)
	}
	return s
}

// Start starts an empty server for a program that is no test. Close it.
func Start() *Server {
	s := &Server{objects: make(map[string]object)}
	s.server = httptest.NewServer(s)
	return s
}

// Close ends the server.
func (s *Server) Close() { s.server.Close() }

// Environment is the variables with which a program has the server's account.
func Environment() map[string]string {
	return map[string]string{"AWS_ACCESS_KEY_ID": KeyID, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull}
}

// URL is that of a prefix in the bucket, or of an object.
func (s *Server) URL(prefix string) string {
	return "s3://" + bucketName + "/" + prefix + "?region=us-east-1&use_path_style=true&request_checksum_calculation=when_required&response_checksum_validation=when_required&endpoint=" +
		url.QueryEscape(s.server.URL)
}

// Counts are what was answered so far.
func (s *Server) Counts() *Counts { return &s.counts }

// Put writes an object.
func (s *Server) Put(key string, content []byte) {
	s.put(key, object{content: content, size: int64(len(content)), etag: etagOf(content)})
}

func etagOf(content []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(content)) }

// Delete removes an object.
func (s *Server) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// AddFolder makes objects of the files in a folder and below. They are not kept in memory, and must
// not change.
func (s *Server) AddFolder(prefix, folder string) error {
	return filepath.WalkDir(folder, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		s.put(path.Join(prefix, filepath.ToSlash(name)), object{file: file, size: int64(len(content)), etag: etagOf(content)})
		return nil
	})
}

func (s *Server) put(key string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = o
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Latency > 0 {
		select {
		case <-time.After(s.Latency):
		case <-r.Context().Done():
			return
		}
	}
	var wrong Answer
	if s.Fault != nil {
		wrong = s.Fault(r)
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case wrong.Status != 0:
		refuse(w, r, wrong.Status, cmp.Or(wrong.Code, "InternalError"), "as the test wants it")
	case !strings.Contains(r.Header.Get("Authorization"), "Credential="+KeyID+"/"):
		refuse(w, r, http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
	case bucket != bucketName:
		refuse(w, r, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	case key == "" && r.Method == http.MethodGet:
		s.counts.Lists.Add(1)
		s.list(w, r)
	case r.Method == http.MethodPut:
		s.counts.Puts.Add(1)
		s.receive(w, r, key)
	case r.Method == http.MethodDelete:
		s.Delete(key)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		s.send(w, r, key, wrong)
	default:
		refuse(w, r, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	}
}

// refuse answers with one of S3's errors.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
	}
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request, key string) {
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		refuse(w, r, http.StatusBadRequest, "IncompleteBody", "the body ended early")
		return
	}
	s.Put(key, body)
	w.Header().Set("ETag", s.find(key).etag)
}

func (s *Server) find(key string) object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.objects[key]
}
