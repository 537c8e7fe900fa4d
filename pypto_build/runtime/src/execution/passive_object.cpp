// Reads a shared object's demands on the loader. Only known harmless ones make it passive.
#include "execution/passive_object.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pypto::runtime {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kCallsAtLoad = R_X86_64_IRELATIVE, kCopies = R_X86_64_COPY;
#elif defined(__aarch64__)
constexpr uint32_t kCallsAtLoad = R_AARCH64_IRELATIVE, kCopies = R_AARCH64_COPY;
#else
constexpr uint32_t kCallsAtLoad = 0, kCopies = 0;
#endif

// The C library's share of `_init`; an added call makes it longer.
constexpr uint64_t kInitBytes = 27;
constexpr size_t kMaxBytes = 1ULL << 30;

// Harmless demands on the loader: symbols, relocations within, and the two functions of the compiler's start file.
constexpr int64_t kHarmless[] = {DT_INIT,         DT_FINI,   DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAY,
                                 DT_FINI_ARRAYSZ, DT_HASH,   DT_GNU_HASH,   DT_STRTAB,       DT_SYMTAB,
                                 DT_STRSZ,        DT_SYMENT, DT_PLTGOT,     DT_PLTRELSZ,     DT_PLTREL,
                                 DT_JMPREL,       DT_RELA,   DT_RELASZ,     DT_RELAENT,      DT_RELACOUNT};

/// A file, mapped.
class MappedFile {
public:
    explicit MappedFile(const std::string &path) {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        struct stat status{};
        if (file >= 0 && fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
            static_cast<size_t>(status.st_size) < kMaxBytes) {
            size_ = static_cast<size_t>(status.st_size);
            data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
        }
        if (file >= 0)
            close(file);
    }
    ~MappedFile() {
        if (data_ != MAP_FAILED)
            munmap(data_, size_);
    }
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    /// `count` values at `offset`; null where the file does not hold them.
    template <typename Value> const Value *at(uint64_t offset, uint64_t count = 1) const {
        const bool inside = data_ != MAP_FAILED && offset <= size_ && count <= (size_ - offset) / sizeof(Value);
        return inside && offset % alignof(Value) == 0
                   ? reinterpret_cast<const Value *>(static_cast<const char *>(data_) + offset)
                   : nullptr;
    }

private:
    void *data_ = MAP_FAILED;
    size_t size_ = 0;
};

class ObjectFile {
public:
    explicit ObjectFile(const MappedFile &file) : file_(file), head_(file.at<ElfW(Ehdr)>(0)) {
        if (head_ == nullptr || std::memcmp(head_->e_ident, ELFMAG, SELFMAG) != 0 || head_->e_type != ET_DYN ||
            head_->e_ident[EI_CLASS] != ELFCLASS64 || head_->e_shentsize != sizeof(ElfW(Shdr)) ||
            head_->e_shstrndx >= head_->e_shnum)
            return;
        sections_ = file.at<ElfW(Shdr)>(head_->e_shoff, head_->e_shnum);
    }

    bool is_passive() const {
        if (sections_ == nullptr || kCallsAtLoad == 0)
            return false;
        bool asks_loader = false;
        for (size_t i = 0; i < head_->e_shnum; ++i) {
            const ElfW(Shdr) &section = sections_[i];
            if (is_named(section, ".init") && section.sh_size > kInitBytes)
                return false;
            if (section.sh_type == SHT_DYNAMIC && !(asks_loader = is_harmless(section)))
                return false;
            if ((section.sh_type == SHT_RELA && !all_within(section)) || section.sh_type == SHT_REL)
                return false;
            if (section.sh_type == SHT_DYNSYM && !are_own(section))
                return false;
        }
        return asks_loader;
    }

private:
    bool is_named(const ElfW(Shdr) & section, const char *name) const {
        const ElfW(Shdr) &names = sections_[head_->e_shstrndx];
        const uint64_t size = std::strlen(name) + 1;
        if (section.sh_name > names.sh_size || size > names.sh_size - section.sh_name)
            return false;
        const char *found = file_.at<char>(names.sh_offset + section.sh_name, size);
        return found != nullptr && std::memcmp(found, name, size) == 0;
    }

    bool is_harmless(const ElfW(Shdr) & section) const {
        const uint64_t count = section.sh_size / sizeof(ElfW(Dyn));
        const auto *entries = file_.at<ElfW(Dyn)>(section.sh_offset, count);
        for (uint64_t i = 0; entries != nullptr && i < count; ++i) {
            const ElfW(Dyn) &entry = entries[i];
            if (entry.d_tag == DT_NULL)
                return true;
            if (std::find(std::begin(kHarmless), std::end(kHarmless), entry.d_tag) == std::end(kHarmless))
                return false;
            const bool array = entry.d_tag == DT_INIT_ARRAYSZ || entry.d_tag == DT_FINI_ARRAYSZ;
            if (array && entry.d_un.d_val > sizeof(void *))
                return false;
        }
        return false;
    }

    /// Returns whether no relocation calls anything.
    bool all_within(const ElfW(Shdr) & section) const {
        const uint64_t count = section.sh_size / sizeof(ElfW(Rela));
        const auto *entries = file_.at<ElfW(Rela)>(section.sh_offset, count);
        return entries != nullptr && std::none_of(entries, entries + count, [](const ElfW(Rela) &entry) {
                   const auto type = static_cast<uint32_t>(ELF64_R_TYPE(entry.r_info));
                   return type == kCallsAtLoad || type == kCopies;
               });
    }

    /// Returns whether no symbol is one of the whole process, or is chosen by a call.
    bool are_own(const ElfW(Shdr) & section) const {
        const uint64_t count = section.sh_size / sizeof(ElfW(Sym));
        const auto *symbols = file_.at<ElfW(Sym)>(section.sh_offset, count);
        return symbols != nullptr && std::none_of(symbols, symbols + count, [](const ElfW(Sym) &symbol) {
                   return ELF64_ST_BIND(symbol.st_info) == STB_GNU_UNIQUE ||
                          ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC;
               });
    }

    const MappedFile &file_;
    const ElfW(Ehdr) * head_;
    const ElfW(Shdr) *sections_ = nullptr;
};

} // namespace

bool is_passive_object(const std::string &path) {
    const MappedFile file(path);
    return ObjectFile(file).is_passive();
}

} // namespace pypto::runtime
