package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/testing/testbuild"
)

func TestMain(m *testing.M) {
	// This process is a worker of a job of the test.
	if os.Getenv(settingsEnv) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "owndata:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Runs are the same in every format and after kills, and each image is used once.
// PARAGON_TEST_SLOW=1: of 20,000 images, with three kills of each job; the folder photos of
// PARAGON_TEST_DATA, if there is one, has photographs that are among them.
func TestOwnImagesAreTrainedOnAsTheyMustBe(t *testing.T) {
	testbuild.NeedsWorkspace(t)
	bin := t.TempDir()
	if err := testbuild.Programs(bin, "launch"); err != nil {
		t.Fatal(err)
	}
	c := config{
		images: 120, classes: 5, size: 16, largest: 48, kills: 1, dir: t.TempDir(), launch: filepath.Join(bin, "launch"),
		only: regexp.MustCompile(""), what: regexp.MustCompile("rec from disk|MDS from S3"),
	}
	if os.Getenv("PARAGON_TEST_SLOW") != "" {
		c.images, c.classes, c.size, c.largest, c.kills, c.what = 20000, 100, 32, 160, 3, c.only
		folder := os.Getenv("PARAGON_TEST_DATA")
		if folder == "" {
			folder = filepath.Join("..", "..", "..", "shared", "data")
		}
		if _, err := os.Stat(filepath.Join(folder, "photos")); err == nil {
			c.photos = filepath.Join(folder, "photos")
		}
	}
	var out strings.Builder
	err := run(t.Context(), c, &out)
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
}
