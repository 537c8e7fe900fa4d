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

void write_file(const std::string &path, const std::string &content) {
    const std::string partial = path + ".tmp";
    std::FILE *file = std::fopen(partial.c_str(), "wb");
    if (file == nullptr)
        file_fault(partial);
    const bool complete = std::fwrite(content.data(), 1, content.size(), file) == content.size();
    if (std::fclose(file) == 0 && complete && std::rename(partial.c_str(), path.c_str()) == 0)
        return;
    const int reason = errno;
    std::remove(partial.c_str());
    errno = reason;
    file_fault(path);
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
