// A stand-in for libnvrtc.so.13: it reads the names of the kernels in a source, and makes an image that the fake driver loads.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

typedef int nvrtcResult;
enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

struct Program {
  std::string source, name, log, cubin, ptx;
  std::map<std::string, std::string> headers;
  bool compiled = false;
};

static std::mutex lock;
static std::set<Program *> programs;

static Program *find(void *p) {
  std::lock_guard<std::mutex> guard(lock);
  return programs.count((Program *)p) ? (Program *)p : nullptr;
}

API const char *nvrtcGetErrorString(nvrtcResult code) {
  switch (code) {
  case SUCCESS: return "NVRTC_SUCCESS";
  case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
  case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
  case INVALID_OPTION: return "NVRTC_ERROR_INVALID_OPTION";
  case COMPILATION: return "NVRTC_ERROR_COMPILATION";
  }
  return "NVRTC_ERROR unknown";
}

API nvrtcResult nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, SUCCESS; }

API nvrtcResult nvrtcCreateProgram(void **out, const char *source, const char *name, int n, const char *const *headers, const char *const *names) {
  if (!source || n < 0 || (n && (!headers || !names))) return INVALID_INPUT;
  Program *p = new Program;
  p->source = source;
  p->name = name ? name : "default_program";
  for (int i = 0; i < n; i++) p->headers[names[i]] = headers[i];
  std::lock_guard<std::mutex> guard(lock);
  programs.insert(p);
  *out = p;
  return SUCCESS;
}

API nvrtcResult nvrtcDestroyProgram(void **program) {
  if (!find(*program)) return INVALID_PROGRAM;
  std::lock_guard<std::mutex> guard(lock);
  programs.erase((Program *)*program);
  delete (Program *)*program;
  *program = nullptr;
  return SUCCESS;
}

API int fakenvrtc_live() {
  std::lock_guard<std::mutex> guard(lock);
  return (int)programs.size();
}

// read goes through a text and what it includes: the names of kernels, and the first thing that is wrong.
static bool read(Program *p, const std::string &file, const std::string &text, std::set<std::string> &seen, std::set<std::string> &kernels) {
  int line = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    std::string l = text.substr(at, end - at);
    at = end + 1;
    line++;
    auto wrong = [&](const std::string &why) { return p->log = file + "(" + std::to_string(line) + "): error: " + why + "\n", false; };
    if (l.compare(0, 6, "#error") == 0) return wrong("#error directive:" + l.substr(6));
    if (l.compare(0, 8, "#include") == 0) {
      size_t open = l.find_first_of("\"<"), close = l.find_first_of("\">", open + 1);
      if (open == std::string::npos || close == std::string::npos) return wrong("expected a file name");
      std::string name = l.substr(open + 1, close - open - 1);
      if (!p->headers.count(name)) {
        // The branch for another compiler may name headers that are not handed over.
        if (name == "emu.h" || name[0] == '_') continue;
        return wrong("cannot open source file \"" + name + "\"");
      }
      if (seen.insert(name).second && !read(p, name, p->headers[name], seen, kernels)) return false;
    }
    // KERNEL name(, EXPORT(name) and __global__ void name(.
    for (const char *mark : {"KERNEL ", "EXPORT(", "__global__ void "}) {
      size_t m = l.find(mark);
      if (m == std::string::npos || l.compare(0, 7, "#define") == 0) continue;
      size_t b = m + strlen(mark), e = b;
      while (e < l.size() && (isalnum((unsigned char)l[e]) || l[e] == '_')) e++;
      if (e > b) kernels.insert(l.substr(b, e - b));
    }
  }
  return true;
}

API nvrtcResult nvrtcCompileProgram(void *program, int n, const char *const *options) {
  Program *p = find(program);
  if (!p) return INVALID_PROGRAM;
  std::string arch;
  for (int i = 0; i < n; i++) {
    std::string o = options[i];
    if (o.compare(0, 19, "--gpu-architecture=") == 0) arch = o.substr(19);
    else if (o[0] != '-') return p->log = "nvrtc: error: unrecognized option " + o + " found\n", INVALID_OPTION;
  }
  bool real = arch.compare(0, 3, "sm_") == 0, valid = real || arch.compare(0, 8, "compute_") == 0;
  if (!valid || atoi(arch.c_str() + arch.find('_') + 1) < 75 || atoi(arch.c_str() + arch.find('_') + 1) > 121)
    return p->log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n", INVALID_OPTION;
  std::set<std::string> seen, kernels;
  if (!read(p, p->name, p->source, seen, kernels)) return COMPILATION;
  std::string body;
  for (const std::string &k : kernels) body += ".visible .entry " + k + "\n";
  p->ptx = ".version 9.0\n.target sm_" + arch.substr(arch.find('_') + 1) + "\n.address_size 64\n" + body;
  p->cubin = real ? "FAKECUBIN\n" + body : "";
  p->compiled = true;
  p->log = "";
  return SUCCESS;
}

static nvrtcResult size(void *program, size_t *bytes, std::string Program::*text, size_t zero) {
  Program *p = find(program);
  if (!p) return INVALID_PROGRAM;
  *bytes = (p->*text).size() + zero;
  return SUCCESS;
}

static nvrtcResult copy(void *program, char *to, std::string Program::*text, size_t zero) {
  Program *p = find(program);
  if (!p) return INVALID_PROGRAM;
  memcpy(to, (p->*text).c_str(), (p->*text).size() + zero);
  return SUCCESS;
}

API nvrtcResult nvrtcGetPTXSize(void *p, size_t *n) { return size(p, n, &Program::ptx, 1); }
API nvrtcResult nvrtcGetPTX(void *p, char *to) { return copy(p, to, &Program::ptx, 1); }
API nvrtcResult nvrtcGetCUBINSize(void *p, size_t *n) { return size(p, n, &Program::cubin, 0); }
API nvrtcResult nvrtcGetCUBIN(void *p, char *to) { return copy(p, to, &Program::cubin, 0); }
API nvrtcResult nvrtcGetProgramLogSize(void *p, size_t *n) { return size(p, n, &Program::log, 1); }
API nvrtcResult nvrtcGetProgramLog(void *p, char *to) { return copy(p, to, &Program::log, 1); }
