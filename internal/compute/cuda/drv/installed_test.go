package drv

import (
	"errors"
	"strings"
	"testing"

	"github.com/paragon-train/paragon/internal/compute/cuda/dl"
	"github.com/paragon-train/paragon/internal/compute/cuda/headers"
	"github.com/paragon-train/paragon/internal/compute/cuda/installed"
)

// The real driver has all functions under the names by which they are asked for, knows our codes by
// our names, and without a GPU says so.
func TestTheInstalledDriverIsAsTheBindingHasIt(t *testing.T) {
	installed.Run(t, func(libs map[dl.Name]*dl.Library) {
		lib := libs[dl.CUDA]
		d := &Driver{lib: lib, out: new([256]byte)}
		if err := d.f.resolve(lib); err != nil {
			t.Fatal(err)
		}
		if v := lib.Version(); v.Major < 12 || v.Major > 99 {
			t.Errorf("%s: version %v, want 12 or later", lib.Path, v)
		}
		codes := 0
		for _, v := range headers.Values {
			if strings.HasPrefix(v.Name, "CUDA_ERROR_") || v.Name == "CUDA_SUCCESS" {
				codes++
				if e := d.newError(&d.caller, "a call", int32(v.Want)); e.Name != v.Name || e.Text == "" {
					t.Errorf("code %d: the driver says %v, want %s", v.Want, e, v.Name)
				}
			}
		}
		if e := d.newError(&d.caller, "a call", 12345); e.Name != "CUresult 12345" {
			t.Errorf("a code that is none: got %v", e)
		}
		t.Logf("%d codes", codes)
		driver, err := Open(lib)
		if err == nil {
			infos, err := driver.Devices()
			if err != nil || len(infos) == 0 {
				t.Fatalf("devices: got %v and error %v", infos, err)
			}
			t.Log(infos)
			return
		}
		t.Log(err)
		if e, ok := errors.AsType[*Error](err); !ok || e.Code == success || !strings.HasPrefix(e.Name, "CUDA_ERROR_") {
			t.Errorf("got %v, want an answer of the driver with its name", err)
		}
	}, dl.CUDA)
}
