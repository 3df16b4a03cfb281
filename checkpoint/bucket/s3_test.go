package bucket_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func init() { clouds["s3"] = fakeS3 }

// fakeS3 is the URL of a prefix of an empty bucket in a server on this machine that speaks the part of S3's protocol that the driver
// uses for small objects: put, get (also a range), head, list and delete.
func fakeS3(t *testing.T) string {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(&s3{objects: map[string][]byte{}})
	t.Cleanup(server.Close)
	return "s3://bucket/some/run?region=us-east-1&use_path_style=true&request_checksum_calculation=when_required&response_checksum_validation=when_required&endpoint=" + url.QueryEscape(server.URL)
}

type s3 struct {
	mu      sync.Mutex // guards objects
	objects map[string][]byte
}

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	text, ok := s.objects[key]
	switch {
	case key == "" && r.Method == http.MethodGet:
		s.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil || int64(len(body)) != r.ContentLength {
			http.Error(w, "the body ended early", http.StatusBadRequest)
			return
		}
		s.objects[key] = body
		w.Header().Set("ETag", `"x"`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !ok:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		if r.Method != http.MethodHead {
			fmt.Fprint(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
		}
	default:
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
		status := http.StatusOK
		if from, found := strings.CutPrefix(r.Header.Get("Range"), "bytes="); found {
			first, _ := strconv.Atoi(strings.TrimSuffix(from, "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, len(text)-1, len(text)))
			text, status = text[first:], http.StatusPartialContent
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		w.WriteHeader(status)
		if r.Method == http.MethodGet {
			_, _ = w.Write(text)
		}
	}
}

func (s *s3) list(w http.ResponseWriter, prefix string) {
	type object struct {
		Key          string
		LastModified string
		Size         int
		ETag         string
	}
	var answer struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		KeyCount    int
		IsTruncated bool
		Contents    []object
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) {
			answer.Contents = append(answer.Contents, object{key, "2020-01-01T00:00:00Z", len(s.objects[key]), `"x"`})
		}
	}
	answer.KeyCount = len(answer.Contents)
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(answer)
}
