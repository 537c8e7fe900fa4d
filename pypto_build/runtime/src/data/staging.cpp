// Tensors before a run: poisoned, guarded or copied; and after it: what was not written, or should not have been.
#include "data/staging.h"

#include "base/fault.h"
#include "base/pages.h"
#include "data/poison.h"

#include <cstring>
#include <sys/mman.h>

namespace pypto::runtime {

namespace {

constexpr uint8_t kZone = 0xa5; // fills what is left of a copy's last page

bool owns_pages(const TensorParameter &parameter) {
    return reinterpret_cast<uint64_t>(parameter.address) % kPage == 0 && parameter.bytes % kPage == 0;
}

} // namespace

Staging::Staging(const std::vector<TensorParameter> &parameters, bool poison, bool protect_inputs)
    : parameters_(parameters), copies_(parameters.size()), written_(parameters.size()), poison_(poison) {
    for (uint32_t i = 0; i < parameters_.size(); ++i) {
        const TensorParameter &parameter = parameters_[i];
        Region region{i, parameter.name.c_str(), parameter.address, parameter.bytes, false};
        if (parameter.direction == Direction::Out && poison_)
            fill_with_poison(parameter.address, parameter.bytes, parameter.dtype);
        if (parameter.direction == Direction::In && protect_inputs && parameter.bytes > 0) {
            if (!owns_pages(parameter))
                region.base = copy_of(parameter, copies_[i]);
            region.guarded = mprotect(region.base, pages(region.bytes), PROT_READ) == 0;
        }
        regions_.push_back(region);
    }
}

Staging::~Staging() {
    for (size_t i = 0; i < regions_.size(); ++i) {
        if (copies_[i])
            munmap(regions_[i].base, copies_[i]);
        else if (regions_[i].guarded)
            mprotect(regions_[i].base, pages(regions_[i].bytes), PROT_READ | PROT_WRITE);
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
    uint64_t offset = region.bytes;
    while (offset < copies_[index] && region.base[offset] == kZone)
        ++offset;
    return offset < copies_[index] ? offset : 0;
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
        if (!region.guarded || address < begin || address >= begin + pages(region.bytes))
            continue;
        Written &written = written_[region.tensor];
        if (!written.seen) {
            written.offset = address - begin;
            written.task = task;
            std::strncpy(written.kernel, kernel, sizeof(written.kernel) - 1);
            written.seen = true;
        }
        return mprotect(region.base, pages(region.bytes), PROT_READ | PROT_WRITE) == 0;
    }
    return false;
}

} // namespace pypto::runtime
