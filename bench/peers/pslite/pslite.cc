// Plays the works of bench/kv with ps-lite, for "bench/kv -peer". bench/kv/peer.go says what it is told and what it answers.
//
// Every array is a key; those of a million values and more are cut into one key for each server, as MXNet does, the others go
// whole to the server that has the least so far. Flags:
//
//	--trips 1|2           push and pull are one message, answered when the round is closed (the default); or two: first all
//	                      pushes of a pass, then each pull as soon as its push is acknowledged
//	--server sum|answer   a round closes when all workers' pushes are summed, as bench/kv's servers do (the default);
//	                      or the first push of a key is its value for ever, and nothing waits or computes
//	--whole               play only works whose operation is a whole pass
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ps/ps.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int trips = 1;
  bool sums = true;
  bool whole_only = false;
};

// Store holds the values of one server. Its requests come one at a time.
class Store {
 public:
  explicit Store(bool sums) : sums_(sums) {}

  void operator()(const ps::KVMeta& req, const ps::KVPairs<float>& data, ps::KVServer<float>* server) {
    Value& v = values_[data.keys[0]];
    if (!sums_) {
      if (req.push && v.value.empty()) v.value = data.vals;
      return Answer(req, data, v, server);
    }
    if (req.push) Add(&v, v.pushed[req.sender]++, data.vals);
    if (req.push && !req.pull) server->Response(req);
    if (req.pull) v.waiting.push_back({req, data, v.pushed[req.sender]});
    while (!v.open.empty() && v.open.front().pushes == ps::NumWorkers()) {
      v.value = v.open.front().sum;
      v.open.pop_front();
      v.closed++;
    }
    auto ready = [&](const Pull& p) { return p.rounds <= v.closed; };
    for (const Pull& p : v.waiting) {
      if (ready(p)) Answer(p.req, p.data, v, server);
    }
    v.waiting.erase(std::remove_if(v.waiting.begin(), v.waiting.end(), ready), v.waiting.end());
  }

 private:
  struct Round {
    int pushes = 0;
    ps::SArray<float> sum;
  };
  struct Pull {
    ps::KVMeta req;
    ps::KVPairs<float> data;
    size_t rounds;  // that must be closed
  };
  struct Value {
    ps::SArray<float> value;
    size_t closed = 0;                      // rounds
    std::deque<Round> open;                 // round closed, closed + 1, ...
    std::unordered_map<int, size_t> pushed;  // rounds each worker has pushed
    std::vector<Pull> waiting;
  };

  // Add puts a worker's values into a round. The memory of the first ones becomes the sum.
  static void Add(Value* v, size_t round, const ps::SArray<float>& vals) {
    while (v->open.size() <= round - v->closed) v->open.emplace_back();
    Round& r = v->open[round - v->closed];
    if (r.pushes++ == 0) {
      r.sum = vals;
      return;
    }
    float* __restrict__ sum = r.sum.data();
    const float* __restrict__ x = vals.data();
    for (size_t i = 0, n = vals.size(); i < n; i++) sum[i] += x[i];
  }

  // Answer sends the value without a copy: it is never written again.
  static void Answer(const ps::KVMeta& req, const ps::KVPairs<float>& data, const Value& v, ps::KVServer<float>* server) {
    ps::KVPairs<float> res;
    if (req.pull) {
      res.keys = data.keys;
      res.vals = v.value;
    }
    server->Response(req, res);
  }

  const bool sums_;
  std::unordered_map<ps::Key, Value> values_;
};

struct Work {
  std::string name;
  int samples = 0, passes = 0;
  bool pull = false, whole = false;
  std::vector<size_t> sizes;
};

std::vector<Work> ReadPlan() {
  const char* text = getenv("PARAGON_BENCH_PLAN");
  std::istringstream plan(text ? text : "");
  std::vector<Work> works;
  for (std::string line; std::getline(plan, line);) {
    std::istringstream fields(line);
    Work w;
    fields >> w.name >> w.samples >> w.passes >> w.pull >> w.whole;
    for (size_t n; fields >> n;) w.sizes.push_back(n);
    works.push_back(w);
  }
  return works;
}

// Array is one array of a work on a worker.
struct Array {
  ps::SArray<ps::Key> keys;
  ps::SArray<float> grad, out;
  int push = -1, pull = -1;  // requests under way
};

// Keys gives out keys, alike on all workers.
class Keys {
 public:
  Keys() : ranges_(ps::Postoffice::Get()->GetServerKeyRanges()), next_(ranges_.size()), load_(ranges_.size()) {}

  ps::SArray<ps::Key> For(size_t size) {
    const size_t kBig = 1000 * 1000;
    std::vector<ps::Key> keys;
    if (size >= kBig && size % ranges_.size() == 0) {
      for (size_t s = 0; s < ranges_.size(); s++) keys.push_back(Take(s, size / ranges_.size()));
    } else {
      keys.push_back(Take(std::min_element(load_.begin(), load_.end()) - load_.begin(), size));
    }
    return ps::SArray<ps::Key>(keys);
  }

 private:
  ps::Key Take(size_t server, size_t size) {
    load_[server] += size;
    return ranges_[server].begin() + next_[server]++;
  }

  const std::vector<ps::Range>& ranges_;
  std::vector<ps::Key> next_;
  std::vector<size_t> load_;
};

class Player {
 public:
  Player(ps::KVWorker<float>* kv, const Work& w, int trips, Keys* keys) : kv_(kv), w_(w), trips_(trips), arrays_(w.sizes.size()) {
    // The largest are placed first, so that the servers have alike.
    std::vector<size_t> order(arrays_.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return w.sizes[a] > w.sizes[b]; });
    for (size_t i : order) {
      Array& a = arrays_[i];
      a.keys = keys->For(w.sizes[i]);
      a.grad.resize(w.sizes[i], 0);
      for (size_t j = 0; j < w.sizes[i]; j++) a.grad[j] = static_cast<float>(j % 7) - 3;
      if (w.pull) a.out.resize(w.sizes[i], 0);
    }
  }

  // Sample plays one sample: the last key begins.
  void Sample(int64_t* took, int64_t* first) {
    const Clock::time_point begin = Clock::now();
    auto since = [begin] { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count(); };
    *first = 0;
    const std::function<void()> there = [first, since] { *first = since(); };
    for (int pass = 0; pass < w_.passes; pass++) {
      for (size_t i = arrays_.size(); i-- > 0;) {
        Array& a = arrays_[i];
        Wait(&a);
        const auto cb = i == 0 ? there : nullptr;
        if (!w_.pull || trips_ == 2) {
          a.push = kv_->ZPush(a.keys, a.grad, {}, 0, w_.pull ? nullptr : cb);
        } else {
          a.pull = kv_->ZPushPull(a.keys, a.grad, &a.out, nullptr, 0, cb);
        }
      }
      for (size_t i = arrays_.size(); i-- > 0 && w_.pull && trips_ == 2;) {
        Array& a = arrays_[i];
        Wait(&a);  // ps-lite may take a pull before the push that went ahead of it
        a.pull = kv_->ZPull(a.keys, &a.out, nullptr, 0, i == 0 ? there : nullptr);
      }
    }
    for (Array& a : arrays_) Wait(&a);
    *took = since();
  }

  // Check ends the process unless what was pulled last is the value of so many workers' pushes.
  void Check(int workers) const {
    for (const Array& a : arrays_) {
      for (size_t i = 0; i < a.out.size(); i++) {
        if (a.out[i] == a.grad[i] * workers) continue;
        std::cerr << "pslite: work " << w_.name << ": value " << i << " of " << a.out.size() << ": got " << a.out[i] << ", want " << a.grad[i] * workers << std::endl;
        _exit(1);
      }
    }
  }

 private:
  void Wait(Array* a) {
    for (int* request : {&a->push, &a->pull}) {
      if (*request >= 0) kv_->Wait(*request);
      *request = -1;
    }
  }

  ps::KVWorker<float>* kv_;
  const Work& w_;
  const int trips_;
  std::vector<Array> arrays_;
};

void PrintList(const char* name, const std::vector<int64_t>& list) {
  std::cout << ",\"" << name << "\":[";
  for (size_t i = 0; i < list.size(); i++) std::cout << (i ? "," : "") << list[i];
  std::cout << "]";
}

void PlayAll(const Options& opt) {
  ps::KVWorker<float> kv(0, 0);
  Keys keys;
  for (const Work& w : ReadPlan()) {
    if (opt.whole_only && !w.whole) {
      std::cout << "{\"Work\":\"" << w.name << "\",\"Skip\":true}" << std::endl;
      continue;
    }
    Player player(&kv, w, opt.trips, &keys);
    int64_t t = 0, f = 0;
    for (int i = 0; i < 3; i++) player.Sample(&t, &f);
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
    std::cout << "{\"Work\":\"" << w.name << "\",\"Begin\":true}" << std::endl;
    std::vector<int64_t> took, first;
    for (int i = 0; i < w.samples; i++) {
      player.Sample(&t, &f);
      took.push_back(t);
      first.push_back(f);
    }
    player.Check(opt.sums ? ps::NumWorkers() : 1);
    std::cout << "{\"Work\":\"" << w.name << "\"";
    PrintList("Took", took);
    PrintList("First", first);
    std::cout << "}" << std::endl;
    ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  }
}

// FreePort asks the system for a port, since ps-lite's scheduler must be told one.
int FreePort() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in addr = {};
  addr.sin_family = AF_INET;
  addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t len = sizeof(addr);
  auto* sa = reinterpret_cast<sockaddr*>(&addr);
  if (fd < 0 || bind(fd, sa, len) != 0 || getsockname(fd, sa, &len) != 0) {
    perror("pslite: find a free port");
    exit(1);
  }
  close(fd);
  return ntohs(addr.sin_port);
}

Options ReadFlags(int argc, char** argv) {
  Options opt;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--whole") {
      opt.whole_only = true;
      continue;
    }
    i++;
    if (flag == "--trips" && (value == "1" || value == "2")) {
      opt.trips = value == "1" ? 1 : 2;
    } else if (flag == "--server" && (value == "sum" || value == "answer")) {
      opt.sums = value == "sum";
    } else {
      std::cerr << "pslite: got " << flag << " " << value << ", want --trips 1|2, --server sum|answer, --whole" << std::endl;
      exit(2);
    }
  }
  return opt;
}

}  // namespace

int main(int argc, char** argv) {
  const Options opt = ReadFlags(argc, argv);
  std::thread([] {  // ends with its standard input
    char buf[64];
    while (read(STDIN_FILENO, buf, sizeof(buf)) > 0) {
    }
    _exit(1);
  }).detach();
  const char* role_name = getenv("DMLC_ROLE");
  const std::string role = role_name ? role_name : "";
  if (role == "scheduler") {
    const std::string port = std::to_string(FreePort());
    setenv("DMLC_PS_ROOT_PORT", port.c_str(), 1);
    std::cout << getenv("DMLC_PS_ROOT_URI") << ":" << port << std::endl;
  }
  ps::KVServer<float>* server = nullptr;
  if (role == "server") {
    server = new ps::KVServer<float>(0);
    server->set_request_handle(Store(opt.sums));
  }
  ps::Start(0);
  // With DMLC_LOCAL ps-lite listens at a file and leaves it behind.
  const std::string file = getenv("DMLC_LOCAL") ? "/tmp/" + std::to_string(ps::Postoffice::Get()->van()->my_node().port) : "";
  if (role == "worker") PlayAll(opt);
  ps::Finalize(0, true);
  delete server;
  if (!file.empty()) unlink(file.c_str());
  return 0;
}
