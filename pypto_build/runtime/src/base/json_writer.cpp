// Numbers and texts in JSON, and files that appear whole.
#include "base/json_writer.h"

#include "base/fault.h"
#include "pypto/data_type.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

namespace pypto::runtime {

namespace {

constexpr const char *kPartial = ".tmp";

[[noreturn]] void file_fault(const std::string &path) {
    throw_fault(FaultKind::NotWritable, {{"path", path}, {"reason", std::strerror(errno)}});
}

} // namespace

void JsonWriter::escape(char control) {
    char digits[8];
    std::snprintf(digits, sizeof(digits), "\\u%04x", static_cast<unsigned>(control));
    text_ += digits;
}

JsonWriter &JsonWriter::real(float value) {
    if (std::isnan(value))
        return null();
    if (std::isinf(value))
        return text(value > 0 ? "$Inf" : "-$Inf");
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.9g", static_cast<double>(value));
    return raw(digits);
}

void GrowingFile::open(const std::string &path) {
    drop();
    path_ = path;
    error_ = 0;
    file_ = std::fopen((path + kPartial).c_str(), "wb");
    if (file_ == nullptr)
        file_fault(path + kPartial);
}

void GrowingFile::append(const void *piece, size_t bytes) {
    if (error_ == 0 && std::fwrite(piece, 1, bytes, file_) != bytes)
        error_ = errno;
}

void GrowingFile::finish() {
    const std::string partial = path_ + kPartial;
    if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0)
        error_ = errno;
    if (error_ == 0 && std::rename(partial.c_str(), path_.c_str()) == 0)
        return;
    const int reason = error_ != 0 ? error_ : errno;
    std::remove(partial.c_str());
    errno = reason;
    file_fault(path_);
}

void GrowingFile::drop() {
    if (file_ == nullptr)
        return;
    std::fclose(std::exchange(file_, nullptr));
    std::remove((path_ + kPartial).c_str());
}

void write_file(const std::string &path, const std::string &content) {
    GrowingFile file;
    file.open(path);
    file.append(content);
    file.finish();
}

void make_directories(const std::string &path) {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
            file_fault(part);
        if (end == std::string::npos)
            return;
    }
}

} // namespace pypto::runtime
