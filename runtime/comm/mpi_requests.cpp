#include "runtime/comm/mpi_requests.h"

#include "runtime/base/error.h"

namespace trireme::comm {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(ErrorCode::mpi, length ? std::string(text, length) : fmt::format("error {}", code), call);
}

void MpiRequests::send(const void* data, size_t bytes, int to, int tag, MPI_Comm comm) {
  MPI_Request request;
  TRIREME_MPI(MPI_Isend, data, static_cast<int>(bytes), MPI_BYTE, to, tag, comm, &request);
  requests_.push_back(request);
  expected_bytes_.push_back(kAnySize);
}

void MpiRequests::receive(void* data, size_t bytes, int from, int tag, MPI_Comm comm) {
  receive_up_to(data, bytes, from, tag, comm);
  expected_bytes_.back() = bytes;
}

void MpiRequests::receive_up_to(void* data, size_t capacity, int from, int tag, MPI_Comm comm) {
  MPI_Request request;
  TRIREME_MPI(MPI_Irecv, data, static_cast<int>(capacity), MPI_BYTE, from, tag, comm, &request);
  requests_.push_back(request);
  expected_bytes_.push_back(kAnySize);
}

bool MpiRequests::test() noexcept {
  if (requests_.empty()) return true;
  statuses_.resize(requests_.size());
  int all = 0;
  code_ = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, statuses_.data());
  return all || code_ != MPI_SUCCESS;
}

void MpiRequests::finish() {
  if (code_ == MPI_ERR_IN_STATUS)
    for (const MPI_Status& status : statuses_)
      if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) code_ = status.MPI_ERROR;
  int error_class = MPI_SUCCESS;
  if (code_ != MPI_SUCCESS) MPI_Error_class(code_, &error_class);
  TRIREME_CHECK(error_class != MPI_ERR_TRUNCATE,
                "a message is longer than expected: the ranks' calls do not match");
  check_mpi(code_, "MPI_Testall");
  check_sizes();
  requests_.clear();
  expected_bytes_.clear();
}

void MpiRequests::check_sizes() {
  for (size_t i = 0; i < requests_.size(); ++i) {
    int bytes = 0;
    MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes);
    received_bytes_ = static_cast<size_t>(bytes);
    TRIREME_CHECK(expected_bytes_[i] == kAnySize || received_bytes_ == expected_bytes_[i],
                  "received {} bytes from rank {} where {} were expected: the ranks' calls do not match",
                  received_bytes_, statuses_[i].MPI_SOURCE, expected_bytes_[i]);
  }
}

void MpiRequests::cancel() noexcept {
  for (MPI_Request& request : requests_)
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  for (int attempt = 0; attempt < 1000 && !test(); ++attempt) {
  }
}

}  // namespace trireme::comm
