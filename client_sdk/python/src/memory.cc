#include "client_sdk/python/src/memory.h"

#include <linux/mempolicy.h>
#include <pybind11/stl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client_sdk/python/src/collector.h"
#include "client_sdk/python/src/errors.h"
#include "client_sdk/python/src/gil.h"
#include "common/error.h"

namespace moonpool::python {

namespace py = pybind11;

namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int kNumaNodesMax = 64;

py::buffer_info BytesAt(uintptr_t address, size_t nbytes, bool is_readonly) {
  return py::buffer_info(reinterpret_cast<uint8_t*>(address), static_cast<py::ssize_t>(nbytes),
                         is_readonly);
}

struct Memory {
  uintptr_t address;
  size_t nbytes;
  py::object owner;
  bool is_writable;
};

Memory MakeMemory(uintptr_t address, size_t nbytes, py::object owner, bool writable) {
  if (address == 0 && nbytes != 0) RaiseInvalid("address is 0");
  if (address + nbytes < address || nbytes > PTRDIFF_MAX) {
    RaiseInvalid("address and nbytes do not fit together");
  }
  return {address, nbytes, std::move(owner), writable};
}

// Pages of this process. Views of Python's keep the object, and so the pages.
class HostBuffer {
 public:
  HostBuffer(size_t nbytes, bool huge_pages, std::optional<int> numa_node);
  ~HostBuffer() { munmap(data_, mapped_bytes_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  uintptr_t address() const { return reinterpret_cast<uintptr_t>(data_); }
  size_t nbytes() const { return nbytes_; }

 private:
  absl::Status Fill(bool huge_pages, std::optional<int> numa_node);

  const size_t nbytes_;
  size_t mapped_bytes_ = 0;
  void* data_ = nullptr;
};

HostBuffer::HostBuffer(size_t nbytes, bool huge_pages, std::optional<int> numa_node)
    : nbytes_(nbytes) {
  if (nbytes == 0) RaiseInvalid("nbytes is 0");
  if (numa_node.has_value() && (*numa_node < 0 || *numa_node >= kNumaNodesMax)) {
    RaiseInvalid(absl::StrCat("numa_node is not in 0 to ", kNumaNodesMax - 1));
  }
  const size_t page = huge_pages ? kHugePageBytes : static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (nbytes > SIZE_MAX - page) RaiseInvalid("nbytes is larger than an address space");
  mapped_bytes_ = (nbytes + page - 1) / page * page;
  // It may take a minute, during which other threads run.
  RaiseIfError(WithoutGil([&] { return Fill(huge_pages, numa_node); }));
}

absl::Status HostBuffer::Fill(bool huge_pages, std::optional<int> numa_node) {
  const auto fail = [&](absl::StatusCode code, const std::string& what, const char* hint) {
    const absl::Status failure =
        MakeError(code, ErrorReason::kLimitReached,
                  absl::StrCat("cannot ", what, ": ", std::strerror(errno)), {.hint = hint});
    if (data_ != MAP_FAILED) munmap(data_, mapped_bytes_);
    return failure;
  };
  const char* const hint = huge_pages ? "reserve huge pages (vm.nr_hugepages), or do without"
                                      : "ask for less, or raise the limits of the process";
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge_pages ? MAP_HUGETLB : 0);
  data_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (data_ == MAP_FAILED) {
    return fail(absl::StatusCode::kResourceExhausted, absl::StrCat("map ", mapped_bytes_, " bytes"),
                hint);
  }
  if (numa_node.has_value()) {
    const unsigned long mask = 1UL << *numa_node;  // NOLINT(google-runtime-int): the system call's
    if (syscall(SYS_mbind, data_, mapped_bytes_, MPOL_BIND, &mask, kNumaNodesMax + 1, 0) != 0) {
      return fail(absl::StatusCode::kInvalidArgument,
                  absl::StrCat("bind memory to NUMA node ", *numa_node),
                  "numactl --hardware lists the nodes");
    }
  }
  // Touched before it is used: the first transfer should not pay for the page faults, and pages
  // that are not there are an error here, and a signal later. A kernel before 5.14 cannot.
  if (madvise(data_, mapped_bytes_, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    return fail(absl::StatusCode::kResourceExhausted,
                absl::StrCat("fill ", mapped_bytes_, " bytes with pages"), hint);
  }
  return absl::OkStatus();
}

}  // namespace

void BindMemory(py::module_& module) {
  py::class_<Memory>(module, "Memory", py::buffer_protocol(),
                     "Memory that somebody else owns, by its address: an engine's pool. Goes "
                     "wherever a buffer goes.\n\n`owner` is kept alive as long as this object; "
                     "without one the caller sees to it that the memory outlives every call.",
                     SeenByCollector<Memory, &Memory::owner>())
      .def(py::init(&MakeMemory), py::arg("address"), py::arg("nbytes"), py::kw_only(),
           py::arg("owner") = py::none(), py::arg("writable") = true)
      .def_readonly("address", &Memory::address, "First byte's address.")
      .def_readonly("nbytes", &Memory::nbytes, "Length in bytes.")
      .def("__len__", [](const Memory& memory) { return memory.nbytes; })
      .def_buffer([](Memory& memory) {
        return BytesAt(memory.address, memory.nbytes, !memory.is_writable);
      });
  py::class_<HostBuffer>(module, "HostBuffer", py::buffer_protocol(),
                         "Zeroed host memory, page-aligned and already touched, as engines want "
                         "for their staging pools.\n\nTakes the buffer protocol "
                         "(numpy.frombuffer, torch.frombuffer); the pages go with the last view "
                         "of it. `huge_pages`: 2 MiB pages, which must be reserved. `numa_node`: "
                         "on that node's memory alone.\nRaises ResourceExhausted when there is "
                         "not enough, InvalidArgument for a node that is not there.")
      .def(py::init<size_t, bool, std::optional<int>>(), py::arg("nbytes"), py::kw_only(),
           py::arg("huge_pages") = false, py::arg("numa_node") = py::none())
      .def_property_readonly("address", &HostBuffer::address, "First byte's address.")
      .def_property_readonly("nbytes", &HostBuffer::nbytes, "Length in bytes.")
      .def("__len__", &HostBuffer::nbytes)
      .def_buffer([](HostBuffer& buffer) {
        return BytesAt(buffer.address(), buffer.nbytes(), /*is_readonly=*/false);
      });
}

}  // namespace moonpool::python
