package gpustat

import (
	"math"
	"strings"
	"testing"
)

var two = []GPU{
	{Index: 0, UUID: "GPU-a", Name: "NVIDIA H200", MemoryUsed: 3 << 30, MemoryTotal: 141 << 30, Load: 0.97, Temperature: 61, Power: 512},
	{Index: 1, UUID: "GPU-b", Name: "NVIDIA H200", MemoryUsed: math.NaN(), MemoryTotal: 141 << 30, Load: math.NaN(), Temperature: math.NaN(), Power: math.NaN()},
}

func TestTheTableHasARowForEachGPU(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, two); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"UUID", "GPU-a", "3.0/141.0 GiB", "97%", "61 °C", "512 W", "n/a/141.0 GiB"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if got, want := two[0].String(), "GPU 0: memory 3.0/141.0 GiB, load 97%, 61 °C, 512 W"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnlyVisibleGPUsAreShown(t *testing.T) {
	for names, want := range map[string]int{"": 2, "GPU-b": 1, "GPU-a,GPU-b": 2, "-1": 0, "1": 2, "GPU-c": 0} {
		if got := visible(two, names); len(got) != want {
			t.Errorf("%q: got %d GPUs, want %d", names, len(got), want)
		}
	}
}
