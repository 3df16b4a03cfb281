package dl

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree makes empty files, and links where a line is "link -> target", and returns a search below
// them.
func tree(t *testing.T, env map[string]string, lines ...string) *Search {
	t.Helper()
	root := t.TempDir()
	for _, line := range lines {
		path, target, link := strings.Cut(line, " -> ")
		file := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &Search{Root: root, Getenv: func(key string) string { return env[key] }}
}

// Libraries are found where drivers, Python packages and installations put them, the better place
// first.
func TestCandidatesAreInOrder(t *testing.T) {
	lib := "/usr/lib/" + triplet()
	for _, c := range []struct {
		name  string
		env   map[string]string
		major int
		files []string
		lib   Name
		want  []string
	}{
		{name: "nothing is there", lib: CUDA},
		{name: "the driver, and never the stub", lib: CUDA,
			files: []string{lib + "/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"},
			want:  []string{"/usr/local/nvidia/lib64/libcuda.so.1", lib + "/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}},
		{name: "a driver that the system chooses by links", lib: NVML, files: []string{lib + "/nvidia/current/libnvidia-ml.so.1"},
			want: []string{lib + "/nvidia/current/libnvidia-ml.so.1"}},
		{name: "the environment's folders come first, as they are now", lib: CuDNN, env: map[string]string{"LD_LIBRARY_PATH": "/a:/b"},
			files: []string{"/b/libcudnn.so.9", lib + "/libcudnn.so.9"}, want: []string{"/b/libcudnn.so.9", lib + "/libcudnn.so.9"}},
		{name: "Python packages of CUDA 13 and 12", lib: CuBLASLt,
			files: []string{"/usr/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12", "/usr/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13"},
			want:  []string{"/usr/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13", "/usr/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12"}},
		{name: "not newer than the driver", lib: CuBLASLt, major: 12,
			files: []string{"/usr/local/cuda-12.8/lib64/libcublasLt.so.12", "/usr/local/cuda-13.0/lib64/libcublasLt.so.13"},
			want:  []string{"/usr/local/cuda-12.8/lib64/libcublasLt.so.12"}},
		{name: "the virtual environment before the system", lib: NCCL, env: map[string]string{"VIRTUAL_ENV": "/venv", "HOME": "/root"},
			files: []string{"/usr/local/lib/python3.11/dist-packages/nvidia/nccl/lib/libnccl.so.2", "/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
				"/root/.local/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"},
			want: []string{"/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2", "/root/.local/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
				"/usr/local/lib/python3.11/dist-packages/nvidia/nccl/lib/libnccl.so.2"}},
		{name: "the Python of the shell", lib: CuDNN, env: map[string]string{"PATH": "/none/bin:/env/bin"},
			files: []string{"/env/bin/python3", "/env/lib/python3.13/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "/none/lib/python3.13/site-packages/nvidia/cudnn/lib/libcudnn.so.9"},
			want:  []string{"/env/lib/python3.13/site-packages/nvidia/cudnn/lib/libcudnn.so.9"}},
		{name: "a Python that the shell's is a link to", lib: CuDNN, env: map[string]string{"PATH": "relative:/usr/local/bin", "HOME": "/root"},
			files: []string{"/usr/local/bin/python3 -> ../../../srv/env/bin/python3", "/srv/env/bin/python3 -> python3.12", "/srv/env/bin/python3.12",
				"/srv/env/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "/root/.local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"},
			want: []string{"/srv/env/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "/root/.local/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"}},
		{name: "an image's own environment", lib: NCCL,
			files: []string{"/opt/torch/.venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"},
			want:  []string{"/opt/torch/.venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"}},
		{name: "packages that were put into a folder", lib: CuDNN, env: map[string]string{"PYTHONPATH": "/tmp/site:", "VIRTUAL_ENV": "/venv"},
			files: []string{"/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "/tmp/site/nvidia/cudnn/lib/libcudnn.so.9"},
			want:  []string{"/tmp/site/nvidia/cudnn/lib/libcudnn.so.9", "/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9"}},
		{name: "the installation that the environment names, and conda", lib: CuBLASLt, env: map[string]string{"CUDA_HOME": "/sw/cuda", "CONDA_PREFIX": "/conda"},
			files: []string{"/usr/local/cuda-13.1/lib64/libcublasLt.so.13", "/conda/lib/libcublasLt.so.13", "/sw/cuda/lib64/libcublasLt.so.13"},
			want:  []string{"/sw/cuda/lib64/libcublasLt.so.13", "/conda/lib/libcublasLt.so.13", "/usr/local/cuda-13.1/lib64/libcublasLt.so.13"}},
		{name: "the newest installation first", lib: NVRTC,
			files: []string{"/usr/local/cuda-13.0/lib64/libnvrtc.so.13", "/usr/local/cuda-13.2/targets/" + target() + "/lib/libnvrtc.so.13", "/usr/local/cuda-9.2/lib64/libnvrtc.so.13"},
			want: []string{"/usr/local/cuda-13.2/targets/" + target() + "/lib/libnvrtc.so.13", "/usr/local/cuda-13.0/lib64/libnvrtc.so.13",
				"/usr/local/cuda-9.2/lib64/libnvrtc.so.13"}},
		{name: "another major version is another library", lib: CuDNN, files: []string{lib + "/libcudnn.so.8", lib + "/libcudnn.so"}},
		{name: "a folder of that name", lib: CuDNN, files: []string{lib + "/libcudnn.so.9/README"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tree(t, c.env, c.files...)
			s.Major = c.major
			var got []string
			for _, path := range s.Candidates(c.lib) {
				got = append(got, strings.TrimPrefix(path, s.Root))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// A path that is given is the only candidate; a folder stands for the library in it.
func TestGivenPathIsTheOnlyCandidate(t *testing.T) {
	s := tree(t, map[string]string{"PARAGON_CUDNN_PATH": "/elsewhere/libcudnn.so.9", "PARAGON_NVIDIA_ML_PATH": "/ml.so"}, "/mine/libnccl.so.2", "/usr/lib/"+triplet()+"/libcudnn.so.9")
	s.Paths = Paths{NCCL: s.Root + "/mine", CuBLAS: s.Root + "/mine"}
	for name, want := range map[Name]string{CuDNN: "/elsewhere/libcudnn.so.9", NVML: "/ml.so", NCCL: s.Root + "/mine/libnccl.so.2", CuBLAS: s.Root + "/mine/libcublas.so.13"} {
		if got := s.Candidates(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: got %q, want %q alone", name, got, want)
		}
	}
	s.Only = true
	if got := s.Candidates(CuDNN); got != nil {
		t.Errorf("cudnn with Only: got %q, want none", got)
	}
}

// What cannot be opened is said, for every place that was tried.
func TestOpenSaysWhatWasTried(t *testing.T) {
	if err := Supported(); err != nil {
		if _, err := new(Search).Open(CUDA); !errors.Is(err, ErrBuild) {
			t.Errorf("got %v, want ErrBuild", err)
		}
		return
	}
	lib := "/usr/lib/" + triplet()
	s := tree(t, nil, lib+"/libcuda.so.1", "/usr/local/cuda/stubs/libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1 -> ../../../local/cuda/stubs/libcuda.so")
	_, err := s.Open(CUDA)
	if !errors.Is(err, ErrNoLibrary) {
		t.Fatalf("got %v, want ErrNoLibrary", err)
	}
	for _, want := range []string{"dl: open cuda: no such library", lib + "/libcuda.so.1: file too short", "/usr/lib/wsl/lib/libcuda.so.1: it is a stub for linkers",
		"there is no NVIDIA driver on this machine", "PARAGON_CUDA_PATH"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if _, err := s.Open(CuDNN); !errors.Is(err, ErrNoLibrary) || !strings.Contains(err.Error(), "PARAGON_CUDNN_PATH") {
		t.Errorf("cudnn: got %v, want ErrNoLibrary and the name of the variable", err)
	}
	if _, err := s.Open("glass"); err == nil || !strings.Contains(err.Error(), `"glass": unknown library`) {
		t.Errorf("glass: got %v", err)
	}
}

// Texts of C end with a zero.
func TestTextOfNothing(t *testing.T) {
	if got := Text(0); got != "" {
		t.Errorf("text at 0: got %q, want none", got)
	}
}
