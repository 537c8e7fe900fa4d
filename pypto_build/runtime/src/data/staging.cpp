// Tensors before a run: poisoned, guarded or copied; and after it: what was not written, or should not have been.
#include "data/staging.h"

#include "base/fault.h"
#include "base/pages.h"
#include "data/poison.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace pypto::runtime {

namespace {

constexpr uint8_t kZone = 0xa5; // fills what is left of a copy's last page

// Bytes of a read-only input that are copied at once. Each part is a mapping of its own; a process has some 65,000.
constexpr uint64_t kPart = 2 << 20;

bool owns_pages(const TensorParameter &parameter) {
    return reinterpret_cast<uint64_t>(parameter.address) % kPage == 0 && parameter.bytes % kPage == 0;
}

uint64_t first_page(const uint8_t *base) {
    return reinterpret_cast<uint64_t>(base) / kPage * kPage;
}

uint64_t page_bytes(const uint8_t *base, uint64_t bytes) {
    return pages(reinterpret_cast<uint64_t>(base) + bytes - first_page(base));
}

bool set_access(const Staging::Region &region, int access) {
    return mprotect(reinterpret_cast<void *>(first_page(region.base)), page_bytes(region.base, region.bytes), access) ==
           0;
}

// The same memory once more, which only the system can tell from the other; null where it is no shared mapping.
uint8_t *mapped_again(const TensorParameter &parameter, uint64_t &mapped) {
    const uint64_t first = first_page(parameter.address), bytes = page_bytes(parameter.address, parameter.bytes);
    void *again = mremap(reinterpret_cast<void *>(first), 0, bytes, MREMAP_MAYMOVE);
    if (again == MAP_FAILED)
        return nullptr;
    mapped = bytes;
    return static_cast<uint8_t *>(again) + (reinterpret_cast<uint64_t>(parameter.address) - first);
}

} // namespace

Staging::Staging(const std::vector<TensorParameter> &parameters, bool poison, bool protect_inputs)
    : parameters_(parameters), copies_(parameters.size()), written_(parameters.size()), own_parts_(parameters.size()),
      poison_(poison) {
    for (uint32_t i = 0; i < parameters_.size(); ++i) {
        const TensorParameter &parameter = parameters_[i];
        Region region{i, parameter.name.c_str(), parameter.address, parameter.bytes, false, false};
        if (parameter.direction == Direction::Out && poison_)
            fill_with_poison(parameter.address, parameter.bytes, parameter.dtype);
        if (parameter.direction == Direction::In && protect_inputs && parameter.bytes > 0) {
            uint8_t *again = parameter.read_only ? mapped_again(parameter, copies_[i]) : nullptr;
            region.shares = again != nullptr;
            if (region.shares)
                own_parts_[i].resize(copies_[i] / kPart + 1);
            if (again || parameter.read_only || !owns_pages(parameter))
                region.base = again ? again : copy_of(parameter, copies_[i]);
            region.guarded = set_access(region, PROT_READ);
        } else if (parameter.direction == Direction::In && parameter.read_only && parameter.bytes > 0) {
            region.base = copy_of(parameter, copies_[i]);
        }
        regions_.push_back(region);
    }
}

Staging::~Staging() {
    for (size_t i = 0; i < regions_.size(); ++i) {
        if (copies_[i])
            munmap(reinterpret_cast<void *>(first_page(regions_[i].base)), copies_[i]);
        else if (regions_[i].guarded)
            set_access(regions_[i], PROT_READ | PROT_WRITE);
    }
}

uint8_t *Staging::copy_of(const TensorParameter &parameter, uint64_t &mapped) {
    mapped = pages(parameter.bytes);
    void *base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        throw_fault(FaultKind::NoMemoryForInput, {{"name", parameter.name}});
    std::memcpy(base, parameter.address, parameter.bytes);
    std::memset(static_cast<uint8_t *>(base) + parameter.bytes, kZone, mapped - parameter.bytes);
    return static_cast<uint8_t *>(base);
}

uint64_t Staging::overrun(uint32_t index) const {
    const Region &region = regions_[index];
    if (!copies_[index])
        return 0;
    const uint64_t end = first_page(region.base) + copies_[index] - reinterpret_cast<uint64_t>(region.base);
    const uint8_t *owners = parameters_[index].address;
    uint64_t offset = region.bytes;
    while (offset < end && region.base[offset] == (region.shares ? owners[offset] : kZone))
        ++offset;
    return offset < end ? offset : 0;
}

std::vector<EntryTensor> Staging::entry_tensors() const {
    std::vector<EntryTensor> tensors;
    for (size_t i = 0; i < parameters_.size(); ++i) {
        const TensorParameter &parameter = parameters_[i];
        EntryTensor tensor{};
        uint8_t *base = parameter.bytes ? regions_[i].base : nullptr;
        static_cast<ChipTensor &>(tensor) = make_tensor_external(
            base, parameter.shape.data(), static_cast<uint32_t>(parameter.shape.size()), parameter.dtype);
        tensor.data = reinterpret_cast<uint64_t>(base);
        tensors.push_back(tensor);
    }
    return tensors;
}

std::vector<Unwritten> Staging::unwritten(uint32_t limit) const {
    std::vector<Unwritten> found;
    if (!poison_)
        return found;
    for (uint32_t i = 0; i < parameters_.size(); ++i) {
        const TensorParameter &parameter = parameters_[i];
        if (parameter.direction != Direction::Out || parameter.bytes == 0)
            continue;
        Unwritten result{i, 0, {}};
        result.count = find_poison(parameter.address, parameter.bytes / element_bytes(parameter.dtype), parameter.dtype,
                                   limit, result.first);
        if (result.count)
            found.push_back(result);
    }
    return found;
}

std::vector<InputWrite> Staging::input_writes() const {
    std::vector<InputWrite> writes;
    for (uint32_t i = 0; i < written_.size(); ++i) {
        const bool in_copy = copies_[i] != 0;
        if (const uint64_t past = in_copy ? overrun(i) : 0) {
            const bool known = written_[i].seen && written_[i].offset >= regions_[i].bytes;
            writes.push_back({i, past, known ? written_[i].task : kNoTask, known ? written_[i].kernel : "", true});
            continue;
        }
        if (!written_[i].seen || written_[i].offset >= regions_[i].bytes ||
            (in_copy && !std::memcmp(regions_[i].base, parameters_[i].address, regions_[i].bytes)))
            continue;
        writes.push_back({i, written_[i].offset, written_[i].task, written_[i].kernel, in_copy});
    }
    return writes;
}

bool Staging::open_guarded(uint64_t address, uint64_t task, const char *kernel) {
    for (Region &region : regions_) {
        const uint64_t begin = reinterpret_cast<uint64_t>(region.base);
        const uint64_t first = first_page(region.base), end = first + page_bytes(region.base, region.bytes);
        if (!region.guarded || address < begin || address >= end)
            continue;
        Written &written = written_[region.tensor];
        if (!written.seen) {
            written.offset = address - begin;
            written.task = task;
            std::strncpy(written.kernel, kernel, sizeof(written.kernel) - 1);
            written.seen = true;
        }
        return region.shares ? copy_part(region, address) : set_access(region, PROT_READ | PROT_WRITE);
    }
    return false;
}

bool Staging::copy_part(const Region &region, uint64_t address) {
    const uint64_t first = first_page(region.base), end = first + page_bytes(region.base, region.bytes);
    const uint64_t number = (address - first) / kPart, begin = first + number * kPart;
    const uint64_t bytes = std::min(kPart, end - begin);
    void *part = reinterpret_cast<void *>(begin);
    while (copying_.test_and_set(std::memory_order_acquire)) {
    }
    bool done = own_parts_[region.tensor][number];
    if (done) { // by another thread; or it was closed while a hang was looked at
        done = mprotect(part, bytes, PROT_READ | PROT_WRITE) == 0;
    } else {
        void *copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (copy != MAP_FAILED) {
            std::memcpy(copy, part, bytes);
            done = mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, part) != MAP_FAILED;
        }
        own_parts_[region.tensor][number] = done;
    }
    copying_.clear(std::memory_order_release);
    return done;
}

} // namespace pypto::runtime
